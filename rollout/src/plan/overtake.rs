//! Rule 9, for a unit that reports a greater token than that of its in-flight change: its cluster still has an
//! assignment of an unknown incarnation (the module was removed and is back, the management cluster was restored, its
//! namespace re-created), and an assignment with a smaller token is ignored there.

use super::Pass;
use crate::{InFlight, Unit};

impl Pass<'_> {
    /// The change gets a token above the reported one, on its slot. The change itself and its deadlines stay the same:
    /// otherwise a cluster that always reports a greater token would keep its slot forever. A change that failed gets
    /// no more tokens.
    pub(super) fn overtake(&mut self) {
        if self.spec.paused {
            return;
        }
        for (id, change) in self.memory.in_flight.clone() {
            let unit = self.unit_of(&id, &change).filter(|unit| unit.is_eligible());
            let Some(unit) = unit.filter(|unit| self.is_overtaken(unit, &change)) else {
                continue;
            };
            if change.skipped || change.failed || !self.still_means(unit, &change) {
                continue;
            }
            let change = change.above(self.issue());
            self.memory.in_flight.insert(id, change);
        }
    }

    /// A token that this pass could not exceed is ignored (see `greatest_token`).
    pub(super) fn is_overtaken(&self, unit: &Unit, change: &InFlight) -> bool {
        let reported = unit.observed.as_ref().map(|report| report.token);
        reported.is_some_and(|token| token < self.token) && change.is_overtaken(unit)
    }

    /// The content to write is still desired; otherwise the next change gets a greater token anyway.
    fn still_means(&self, unit: &Unit, change: &InFlight) -> bool {
        if change.kind.empties() {
            return !unit.selected() && self.may_withdraw;
        }
        match change.digest {
            None => true,
            Some(digest) => self
                .next_content(unit, Some(change))
                .is_some_and(|wanted| wanted.digest == digest),
        }
    }
}
