//! Rule 14: units that are no longer selected are withdrawn from, a few at a time, and not many at once unnoticed.

use super::Pass;
use super::limit::count;
use crate::id::fnv64;
use crate::{Acknowledged, Charge, Kind, Unit};

impl Pass<'_> {
    /// A unit that is selected again before its withdrawal was written, and that is still on its way to what its row
    /// says, takes a slot at once: whoever watches the rows counts it. The withdrawal is fenced off (W5).
    /// Others wait for room as everybody does.
    pub(super) fn take_back(&mut self) {
        for (id, charge) in self.memory.charges.clone() {
            let Some(unit) = self.unit_of(&id, &charge).filter(|unit| unit.selected()) else {
                continue;
            };
            if is_active(&charge) && unit.is_eligible() && !charge.is_written(unit) && !unit.is_quiet() {
                let token = self.issue();
                let fence = Charge {
                    sent: true,
                    ..charge.redirected(Kind::Fence, token, self.now)
                };
                self.memory.charges.insert(id, fence);
            }
        }
    }

    pub(super) fn withdraw(&mut self) {
        let leaving: Vec<&Unit> = self
            .units
            .iter()
            .copied()
            .filter(|unit| self.leaves(unit))
            .collect();
        if !self.may_withdraw {
            return;
        }
        self.brake(&leaving);
        if self.held.is_some() || self.spec.paused {
            return;
        }
        let active = count(self.memory.charges.values().filter(|charge| is_active(charge)));
        let mut room = self.withdraw_limit().saturating_sub(active);
        for unit in leaving.into_iter().filter(|unit| unit.is_eligible()) {
            if room == 0 {
                return;
            }
            let charge = Charge::new(unit, Kind::Withdraw, self.token, self.now);
            if !self.charge(unit, charge) {
                return;
            }
            self.issue();
            room -= 1;
            if let Some(acknowledged) = &mut self.memory.acknowledged {
                acknowledged.left = acknowledged.left.wrapping_sub(hash(unit));
            }
        }
    }

    /// It shall be left, and that has not begun.
    pub(super) fn leaves(&self, unit: &Unit) -> bool {
        let begun = self
            .charge_of(unit)
            .is_some_and(|charge| charge.kind == Kind::Withdraw);
        !unit.selected() && unit.carries().is_some() && !begun && !self.gives_up(unit)
    }

    /// How many may be left at one time.
    pub(super) fn withdraw_limit(&self) -> u32 {
        self.spec.withdraw.max.of(self.carrying())
    }

    /// More than the brake allows are held until somebody names exactly them. An acknowledgement is taken once;
    /// it holds for what is left of its units, and ends when others join them or the brake no longer needs it.
    fn brake(&mut self, leaving: &[&Unit]) {
        let set = leaving
            .iter()
            .fold(0u64, |sum, unit| sum.wrapping_add(hash(unit)));
        let given = self.spec.withdraw.acknowledged.as_deref();
        let taken = self
            .memory
            .acknowledged
            .is_some_and(|it| given == Some(name(it.named).as_str()));
        if !leaving.is_empty() && !taken && given == Some(name(set).as_str()) {
            self.memory.acknowledged = Some(Acknowledged {
                named: set,
                left: set,
            });
        } else if leaving.is_empty() && !taken {
            self.memory.acknowledged = None;
        }
        let Some(brake) = self.spec.withdraw.brake else {
            return;
        };
        let leaving = count(leaving.iter());
        let many = leaving > 1 && leaving > brake.of(self.carrying());
        let acknowledged = self.memory.acknowledged.is_some_and(|it| it.left == set);
        if many && !acknowledged {
            self.held = Some((name(set).into(), leaving));
        }
    }

    fn carrying(&self) -> u32 {
        count(
            self.units
                .iter()
                .filter(|unit| !unit.is_empty() && !self.gives_up(unit)),
        )
    }
}

/// It fills the window of withdrawals.
pub(super) fn is_active(charge: &Charge) -> bool {
    charge.kind == Kind::Withdraw && !charge.skipped
}

/// A set of units is named by the sum of their hashes, so that units can be taken out of it one by one.
pub(super) fn hash(unit: &Unit) -> u64 {
    let mut bytes = unit.id.as_str().as_bytes().to_vec();
    bytes.push(0);
    bytes.extend(unit.incarnation.0.to_le_bytes());
    let mixed = fnv64(&bytes);
    fnv64(&(mixed ^ (mixed >> 29)).to_be_bytes())
}

fn name(set: u64) -> String {
    format!("{set:016x}")
}
