//! Rule 15: units that are not selected and that somebody gave up. Nothing is waited for; their rows are dropped.

use super::{Pass, evidence::returned, withdraw};
use crate::{Charge, Content, Kind, Unit};

impl<'a> Pass<'a> {
    /// It is given up: it is not selected, somebody named it, and a complete read shows that something is left of it.
    pub(super) fn gives_up(&self, unit: &Unit) -> bool {
        self.may_withdraw && !unit.selected() && !unit.is_empty() && self.spec.abandoned.contains(&unit.id)
    }

    /// All of them: few, if any.
    pub(super) fn given_up(&self) -> impl Iterator<Item = &'a Unit> {
        let named = self.spec.abandoned.iter().filter_map(|id| self.unit(id));
        named.filter(|unit| self.gives_up(unit))
    }

    /// Nothing is waited for. That no later token is smaller than what stood in its row, or was reported, is remembered.
    /// In the midst of a change its slot of the limit is free when its row is dropped: until then an older write may come (W5).
    pub(super) fn abandon(&mut self) {
        if self.spec.abandoned.is_empty() || !self.may_withdraw {
            return;
        }
        self.shrink_acknowledged();
        self.forget_withdrawals();
        let given_up: Vec<&Unit> = self.given_up().collect();
        for unit in given_up {
            self.memory.seq = self.memory.seq.max(self.seen);
            let Some(charge) = self.slot_of(unit) else {
                continue;
            };
            let abandoned = charge.redirected(Kind::Abandon, charge.token, charge.since);
            let comes = abandoned.sent.is_some() && !charge.is_written(unit);
            // Released while it was away: should it come back before its row is dropped, it is not confirmed.
            let released = charge.skipped && charge.kind != Kind::Withdraw;
            if (charge.counts() || released) && (comes || !unit.is_quiet()) {
                self.charge(unit, abandoned);
            } else {
                self.memory.charges.remove(&unit.id);
            }
        }
    }

    /// The slot of a unit that is given up. Who came back unconfirmed has one again (rule 4), until its row is dropped.
    fn slot_of(&self, unit: &Unit) -> Option<Charge> {
        match self.charge_of(unit).copied() {
            Some(charge) if unit.is_eligible() => Some(returned(unit, charge)),
            None if unit.is_eligible() => self.unconfirmed(unit),
            charge => charge,
        }
    }

    /// Of whom nothing is left by now nothing is withdrawn: its row, which was dropped, is not made again for that.
    fn forget_withdrawals(&mut self) {
        for id in &self.spec.abandoned {
            let gone = |unit: &&Unit| !unit.selected() && unit.is_empty();
            let charge = self.unit(id).filter(gone).and_then(|unit| self.charge_of(unit));
            if charge.is_some_and(|charge| charge.kind == Kind::Withdraw && !charge.counts()) {
                self.memory.charges.remove(id);
            }
        }
    }

    /// What becomes of the slot: it ends with the row. If the unit is not given up after all, it is fenced off.
    pub(super) fn weigh_abandoned(&mut self, unit: &Unit, charge: Charge) -> Option<Charge> {
        if unit.assigned.is_none_or(|row| row.content == Content::Nothing) {
            None
        } else if self.gives_up(unit) || !self.may_withdraw {
            Some(charge)
        } else {
            let token = self.issue();
            Some(charge.redirected(Kind::Fence, token, charge.since))
        }
    }

    /// An acknowledged withdrawal goes on without those that are given up now.
    fn shrink_acknowledged(&mut self) {
        let begun = |unit: &Unit| {
            self.charge_of(unit)
                .is_some_and(|charge| charge.kind == Kind::Withdraw)
        };
        let waiting = |unit: &&&Unit| !unit.selected() && unit.carries().is_some() && !begun(unit);
        let sum = |units: &mut dyn Iterator<Item = &&Unit>| {
            units.fold(0u64, |sum, unit| sum.wrapping_add(withdraw::hash(unit)))
        };
        let all = sum(&mut self.units.iter().filter(waiting));
        let given_up = sum(&mut self
            .units
            .iter()
            .filter(waiting)
            .filter(|unit| self.gives_up(unit)));
        if let Some(acknowledged) = self.memory.acknowledged.as_mut().filter(|it| it.left == all) {
            acknowledged.left = acknowledged.left.wrapping_sub(given_up);
        }
    }
}
