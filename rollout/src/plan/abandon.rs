//! Rule 15: units that are not selected and that somebody gave up. Nothing is waited for; their rows are dropped.

use super::{Pass, withdraw};
use crate::{Kind, Unit};

impl Pass<'_> {
    /// It is given up: it is not selected, somebody named it, and a complete read shows that something is left of it.
    pub(super) fn gives_up(&self, unit: &Unit) -> bool {
        self.may_withdraw && !unit.selected() && !unit.is_empty() && self.spec.abandoned.contains(&unit.id)
    }

    /// Its slot is free at once. That no later token is smaller than what stood in its row, or was reported, is remembered.
    pub(super) fn abandon(&mut self) {
        if self.spec.abandoned.is_empty() || !self.may_withdraw {
            return;
        }
        self.shrink_acknowledged();
        let given_up: Vec<&Unit> = self
            .units
            .iter()
            .copied()
            .filter(|unit| self.gives_up(unit))
            .collect();
        if given_up.is_empty() {
            return;
        }
        self.memory.seq = self.memory.seq.max(self.seen);
        for unit in given_up {
            if self.charge_of(unit).is_some() {
                self.memory.charges.remove(&unit.id);
            }
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
