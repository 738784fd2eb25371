//! Rule 15: abandoned units that are not selected. The engine does not wait for them, and empties their assignments.

use super::{Pass, evidence::returned, withdraw};
use crate::{Content, InFlight, Kind, Unit};

impl<'a> Pass<'a> {
    /// It is abandoned: it is not selected, the spec names it, and a complete read shows that something of it remains.
    pub(super) fn is_abandoned(&self, unit: &Unit) -> bool {
        self.may_withdraw && !unit.selected() && !unit.is_empty() && self.spec.abandoned.contains(&unit.id)
    }

    /// All abandoned units: few, if any.
    fn abandoned_units(&self) -> impl Iterator<Item = &'a Unit> {
        let named = self.spec.abandoned.iter().filter_map(|id| self.unit(id));
        named.filter(|unit| self.is_abandoned(unit))
    }

    /// No wait is needed. During a change its slot of the limit becomes free when the assignment is emptied: until then
    /// an older write may arrive (W5).
    pub(super) fn abandon(&mut self) {
        if self.spec.abandoned.is_empty() || !self.may_withdraw {
            return;
        }
        self.shrink_acknowledged();
        self.forget_withdrawals();
        let begun = |unit: &Unit| {
            self.in_flight_of(unit)
                .is_some_and(|change| change.kind == Kind::Abandon)
        };
        let given_up: Vec<&Unit> = self.abandoned_units().filter(|unit| !begun(unit)).collect();
        for unit in given_up {
            let change = self.on_its_way_out(unit);
            if self.add_in_flight(unit, change) {
                self.issue();
            }
        }
    }

    /// It keeps its slot: a change that was issued and is not written may arrive, and one that is written and not
    /// confirmed counts. So does one that was released while the unit was absent, if the unit returns.
    fn on_its_way_out(&self, unit: &Unit) -> InFlight {
        let new = InFlight::new(unit, Kind::Abandon, self.token, self.now);
        let Some(slot) = self.slot_of(unit).filter(|slot| slot.counts() || slot.skipped) else {
            return new;
        };
        let change = slot.redirected(Kind::Abandon, self.token, slot.since);
        let comes = change.sent.is_some() && !slot.is_written(unit);
        if !comes && unit.is_quiet() {
            return new;
        }
        InFlight {
            sent: change.sent.or_else(|| (!change.skipped).then_some(self.token)),
            doubtful: false,
            ..change
        }
    }

    /// The slot of an abandoned unit. A unit that returned unconfirmed has one again (rule 4).
    fn slot_of(&self, unit: &Unit) -> Option<InFlight> {
        match self.in_flight_of(unit).copied() {
            Some(change) if unit.is_eligible() => Some(returned(unit, change)),
            None if unit.is_eligible() => self.unconfirmed(unit),
            change => change,
        }
    }

    /// A unit that has nothing left needs no withdrawal.
    fn forget_withdrawals(&mut self) {
        for id in &self.spec.abandoned {
            let gone = |unit: &&Unit| !unit.selected() && unit.is_empty();
            let change = self
                .unit(id)
                .filter(gone)
                .and_then(|unit| self.in_flight_of(unit));
            if change.is_some_and(|change| change.kind == Kind::Withdraw && !change.counts()) {
                self.memory.in_flight.remove(id);
            }
        }
    }

    /// The result for the in-flight change: it ends with the assignment. If the unit is not abandoned after all, late
    /// writes to its slot are fenced; without a slot it is dropped.
    pub(super) fn weigh_abandoned(&mut self, unit: &Unit, change: InFlight) -> Option<InFlight> {
        let row = unit.assigned.filter(|row| row.token >= change.token);
        let named = !unit.selected() && self.spec.abandoned.contains(&unit.id);
        if row.is_some_and(|row| row.content == Content::Nothing) {
            None
        } else if named || !self.may_withdraw {
            let back = unit.is_eligible();
            Some(if back { returned(unit, change) } else { change })
        } else if change.counts() || change.skipped {
            let token = self.issue();
            Some(self.attend(unit, change.redirected(Kind::Fence, token, change.since)))
        } else {
            self.unconfirmed(unit).filter(|_| unit.is_eligible())
        }
    }

    /// An acknowledged withdrawal continues without units that are abandoned now.
    fn shrink_acknowledged(&mut self) {
        let begun = |unit: &Unit| {
            self.in_flight_of(unit)
                .is_some_and(|change| change.kind == Kind::Withdraw)
        };
        let waiting =
            |unit: &&&Unit| !unit.selected() && unit.carries().is_some() && !begun(unit) && !self.moves(unit);
        let sum = |units: &mut dyn Iterator<Item = &&Unit>| {
            units.fold(0u64, |sum, unit| sum.wrapping_add(withdraw::hash(unit)))
        };
        let all = sum(&mut self.units.iter().filter(waiting));
        let given_up = sum(&mut self
            .units
            .iter()
            .filter(waiting)
            .filter(|unit| self.is_abandoned(unit)));
        if let Some(acknowledged) = self.memory.acknowledged.as_mut().filter(|it| it.left == all) {
            acknowledged.left = acknowledged.left.wrapping_sub(given_up);
        }
    }
}
