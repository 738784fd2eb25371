//! Rows that cannot be written. A refusal is never a failure of the revision: its unit did not get it.

use super::Pass;
use crate::{Charge, Kind, Millis, Refusal, Unit, Why};

impl Pass<'_> {
    /// Why the row of this charge cannot be written, if that was refused.
    pub(super) fn refusal(&self, unit: &Unit, charge: &Charge) -> Option<&Refusal> {
        let refusal = self.spec.refused.get(&unit.id)?;
        (refusal.token == charge.token && !charge.is_written(unit)).then_some(refusal)
    }

    /// A unit that was abandoned is not waited for: the slot of a row that cannot be written is free. Without a row nothing is left of it.
    pub(super) fn abandon_refused(&mut self) {
        if !self.may_withdraw {
            return;
        }
        for id in &self.spec.abandoned {
            let unit = self.unit(id).filter(|unit| !unit.selected());
            let Some((unit, charge)) = unit.and_then(|unit| Some((unit, *self.charge_of(unit)?))) else {
                continue;
            };
            if self.refusal(unit, &charge).is_none() {
                continue;
            }
            if unit.is_empty() {
                self.memory.charges.remove(id);
            } else if charge.kind == Kind::Abandon {
                let free = Charge {
                    sent: None,
                    returned: false,
                    ..charge
                };
                self.memory.charges.insert(id.clone(), free);
            }
        }
    }

    /// What such a charge is shown as.
    pub(super) fn why_not_written(&self, unit: &Unit, charge: &Charge) -> Option<Why> {
        let refusal = self.refusal(unit, charge)?;
        Some(Why::WriteFailed {
            since: charge.since,
            overdue: self.now >= self.write_deadline(charge),
            message: refusal.message.clone(),
        })
    }

    /// When each of them is overdue.
    pub(super) fn write_deadlines(&self) -> impl Iterator<Item = Millis> {
        self.spec.refused.keys().filter_map(|id| {
            let unit = self.unit(id)?;
            let charge = self.charge_of(unit)?;
            self.refusal(unit, charge)?;
            Some(self.write_deadline(charge))
        })
    }

    fn write_deadline(&self, charge: &Charge) -> Millis {
        charge.since.plus(self.spec.deadlines.pickup)
    }
}
