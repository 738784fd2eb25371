//! Rule 9, of a unit that reports a greater token than that of its charge: its cluster still has a row of a life of which nothing is
//! remembered here (the module was removed and is back, the management cluster was restored, its namespace made again), and a row with
//! a smaller token never arrives there.

use super::Pass;
use crate::{Charge, Unit};

impl Pass<'_> {
    /// The charge gets a token above the one that is reported, on the slot that it has. The intent is the same, and so are its deadlines:
    /// otherwise a cluster that always reports a greater token would keep its slot forever. One that failed gets no more tokens.
    pub(super) fn overtake(&mut self) {
        if self.spec.paused {
            return;
        }
        for (id, charge) in self.memory.charges.clone() {
            let unit = self.unit_of(&id, &charge).filter(|unit| unit.is_eligible());
            let Some(unit) = unit.filter(|unit| self.is_overtaken(unit, &charge)) else {
                continue;
            };
            if charge.skipped || charge.failed || !self.still_means(unit, &charge) {
                continue;
            }
            let charge = charge.above(self.issue());
            self.memory.charges.insert(id, charge);
        }
    }

    /// A token that this pass could not exceed is not believed (see `greatest_token`).
    pub(super) fn is_overtaken(&self, unit: &Unit, charge: &Charge) -> bool {
        let reported = unit.observed.as_ref().map(|echo| echo.token);
        reported.is_some_and(|token| token < self.token) && charge.is_overtaken(unit)
    }

    /// What the row would be written for is still wanted; otherwise the next intent gets a greater token anyway.
    fn still_means(&self, unit: &Unit, charge: &Charge) -> bool {
        if charge.kind.empties() {
            return !unit.selected() && self.may_withdraw;
        }
        match charge.digest {
            None => true,
            Some(digest) => self
                .wanted(unit, Some(charge))
                .is_some_and(|wanted| wanted.digest == digest),
        }
    }
}
