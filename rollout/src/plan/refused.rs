//! Assignments that cannot be written. A refused write is never a failure of the revision: the unit did not get it.

use super::Pass;
use crate::{InFlight, Kind, Millis, RefusedWrite, Unit, Why};

impl Pass<'_> {
    /// Why the assignment of this change cannot be written, if the write was refused.
    pub(super) fn refusal(&self, unit: &Unit, change: &InFlight) -> Option<&RefusedWrite> {
        let refusal = self.spec.refused.get(&unit.id)?;
        (refusal.token == change.token && !change.is_written(unit)).then_some(refusal)
    }

    /// An abandoned unit needs no wait: the slot of an assignment that cannot be written is free. Without an assignment
    /// nothing of the unit remains.
    pub(super) fn abandon_refused(&mut self) {
        if !self.may_withdraw {
            return;
        }
        for id in &self.spec.abandoned {
            let unit = self.unit(id).filter(|unit| !unit.selected());
            let Some((unit, change)) = unit.and_then(|unit| Some((unit, *self.in_flight_of(unit)?))) else {
                continue;
            };
            if self.refusal(unit, &change).is_none() {
                continue;
            }
            if unit.is_empty() {
                self.memory.in_flight.remove(id);
            } else if change.kind == Kind::Abandon {
                let free = InFlight {
                    sent: None,
                    returned: false,
                    ..change
                };
                self.memory.in_flight.insert(id.clone(), free);
            }
        }
    }

    /// The reason of such a change.
    pub(super) fn why_not_written(&self, unit: &Unit, change: &InFlight) -> Option<Why> {
        let refusal = self.refusal(unit, change)?;
        Some(Why::WriteFailed {
            since: change.since,
            overdue: self.now >= self.write_deadline(change),
            message: refusal.message.clone(),
        })
    }

    /// When each of them becomes overdue.
    pub(super) fn write_deadlines(&self) -> impl Iterator<Item = Millis> {
        self.spec.refused.keys().filter_map(|id| {
            let unit = self.unit(id)?;
            let change = self.in_flight_of(unit)?;
            self.refusal(unit, change)?;
            Some(self.write_deadline(change))
        })
    }

    fn write_deadline(&self, change: &InFlight) -> Millis {
        change.since.plus(self.spec.deadlines.pickup)
    }
}
