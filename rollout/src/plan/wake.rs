//! The next time at which time alone changes something: a deadline, the end of an absence or a soak, a window that
//! opens or closes. Nothing is polled.

use super::Pass;
use crate::{InFlight, Kind, Millis};

impl Pass<'_> {
    pub(super) fn wake_at(&self) -> Option<Millis> {
        if self.spec.complete && !self.may_withdraw {
            // After a rebuild, withdrawals that are not allowed on this pass may be allowed on the next.
            return Some(self.now);
        }
        self.memory
            .in_flight
            .values()
            .flat_map(|change| self.ends(change))
            .flatten()
            .chain(self.stage_ends())
            .chain(self.write_deadlines())
            .chain(self.spec.window_change)
            .filter(|at| *at > self.now)
            .min()
    }

    fn ends(&self, change: &InFlight) -> [Option<Millis>; 3] {
        let soak = change
            .succeeded_since
            .map(|since| since.plus(self.spec.min_ready));
        let deadline = change
            .deadline(&self.spec.deadlines)
            .filter(|_| change.kind != Kind::Withdraw);
        let absence = change
            .absent_since
            .map(|since| since.plus(self.spec.deadlines.absence));
        [
            soak,
            deadline.filter(|_| !change.failed),
            absence.filter(|_| !change.skipped),
        ]
    }
}
