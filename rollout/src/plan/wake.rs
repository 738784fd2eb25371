//! When time alone changes something: a deadline, the end of an absence, the end of a soak, a window that opens or closes. Never polled for.

use super::Pass;
use crate::{Charge, Kind, Millis};

impl Pass<'_> {
    pub(super) fn wake_at(&self) -> Option<Millis> {
        if self.spec.complete && !self.may_withdraw {
            // The memory was rebuilt: what may not be withdrawn on this pass may be on the next.
            return Some(self.now);
        }
        self.memory
            .charges
            .values()
            .flat_map(|charge| self.ends(charge))
            .flatten()
            .chain(self.stage_ends())
            .chain(self.write_deadlines())
            .chain(self.spec.window_change)
            .filter(|at| *at > self.now)
            .min()
    }

    fn ends(&self, charge: &Charge) -> [Option<Millis>; 3] {
        let soak = charge
            .succeeded_since
            .map(|since| since.plus(self.spec.min_ready));
        let deadline = charge
            .deadline(&self.spec.deadlines)
            .filter(|_| charge.kind != Kind::Withdraw);
        let absence = charge
            .absent_since
            .map(|since| since.plus(self.spec.deadlines.absence));
        [
            soak,
            deadline.filter(|_| !charge.failed),
            absence.filter(|_| !charge.skipped),
        ]
    }
}
