//! The steps: what the memory intends and the rows do not say yet. So a step that was lost is repeated with its
//! token, and one that was carried out is not.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Pass;
use super::budget::is_unavailable;
use super::limit::count;
use super::window::is_barred;
use crate::{Charge, Kind, Step, Token, Unit, UnitId};

impl Pass<'_> {
    pub(super) fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut fresh, mut doubtful): (Vec<Pending>, Vec<Pending>) = Default::default();
        let (mut returned, mut repeated): (Vec<Pending>, Vec<Pending>) = Default::default();
        for (id, charge) in &self.memory.charges {
            let Some(unit) = self.unit_of(id, charge).filter(|unit| !charge.is_written(unit)) else {
                continue;
            };
            match self.step(unit, charge) {
                Some(step @ (Step::Withdraw { .. } | Step::Abandon { .. })) => steps.push(step),
                // Who has nothing is counted by nobody when it is fenced off, also where no unit is selected and the limit is none.
                Some(step @ Step::Fence { .. }) if unit.carries().is_none() => steps.push(step),
                Some(step) if charge.counts() && charge.sent.is_none() => {
                    let pending = if charge.doubtful {
                        &mut doubtful
                    } else {
                        &mut fresh
                    };
                    // Who was written last is the likeliest to be counted already: it goes first.
                    pending.push((Reverse(unit.token()), id.clone(), step));
                }
                Some(step) if charge.counts() && !charge.is_counted(unit) => {
                    let pending = if charge.returned {
                        &mut returned
                    } else {
                        &mut repeated
                    };
                    pending.push((Reverse(charge.token), id.clone(), step));
                }
                step => steps.extend(step),
            }
        }
        // The newest first: an older write of a unit that came back may still be on its way, until a newer one is there.
        returned.sort_unstable();
        repeated.sort_unstable();
        // Who came back is above the limit, and what was given out before may still arrive there: the others wait for it.
        let mut crowded = split_at(&mut repeated, self.room_to_repeat(|charge| charge.returned));
        crowded.extend(split_at(&mut returned, self.room_to_repeat(|_| false)));
        repeated.append(&mut returned);
        crowded.extend(self.split_fresh(&mut doubtful, &mut fresh));
        self.split_by_budget(&mut fresh);
        fresh.append(&mut doubtful);
        self.crowded = crowded.into_iter().map(|(_, id, _)| id).collect();
        steps.extend(repeated.into_iter().map(|(_, _, step)| step));
        for (_, id, step) in fresh {
            steps.push(step);
            let row = self.unit(&id);
            if let Some(charge) = self.memory.charges.get_mut(&id) {
                let found = row.filter(|unit| charge.is_found(unit));
                let first = found.map_or(charge.token, Unit::token);
                (charge.sent, charge.doubtful) = (Some(first), false);
            }
        }
        steps.sort_unstable_by(|one, other| one.unit().cmp(&other.unit()));
        steps
    }

    /// A unit to which nothing was sent yet is written only into a window that has room for it, also when the
    /// limit fell, or others came back, since it was charged. Of the doubtful each waits for all but its like, and the others
    /// wait for them, too. Keeps the first that fit, and returns those that do not.
    fn split_fresh(&self, doubtful: &mut Vec<Pending>, others: &mut Vec<Pending>) -> Vec<Pending> {
        doubtful.sort_unstable();
        others.sort_unstable();
        let taken = self.memory.charges.iter().filter(|(id, charge)| {
            // Who was charged for what its row says, and is not there: nobody may have sent it, but it may be counted.
            let moves = |unit: &Unit| (charge.is_written(unit) || charge.doubtful) && !unit.is_quiet();
            charge.counts() && (charge.sent.is_some() || self.unit_of(id, charge).is_none_or(moves))
        });
        let taken = count(taken);
        let among_themselves = taken.saturating_sub(count(doubtful.iter()));
        let mut crowded = split_at(others, self.limit_less(taken));
        crowded.extend(split_at(doubtful, self.limit_less(among_themselves)));
        crowded
    }

    /// The same for the budget: others may have become unavailable since. Takes out those that do not fit, and keeps their names.
    fn split_by_budget(&mut self, fresh: &mut Vec<Pending>) {
        let mut budget = self.budget_of_unsent();
        let mut beyond = BTreeSet::new();
        fresh.retain(|(_, id, _)| {
            let uses = !self.unit(id).is_some_and(is_unavailable);
            let fits = budget.admit(uses);
            budget.take(uses);
            if !fits {
                beyond.insert(id.clone());
            }
            fits
        });
        self.beyond_budget = beyond;
    }

    /// What was sent and perhaps lost is repeated only while it fits beside those that are changing already: when
    /// others came back since, it waits for them. `beside`: whose slot is taken whatever is seen of them.
    fn room_to_repeat(&self, beside: impl Fn(&Charge) -> bool) -> usize {
        let busy = self.memory.charges.iter().filter(|(id, charge)| {
            let moves = |unit: &Unit| charge.is_counted(unit) || charge.is_written(unit) && !unit.is_quiet();
            // Instead of what it took the place of its row is emptied, and until then that may still arrive.
            let taken = charge.kind.empties() || beside(charge);
            charge.counts() && (taken || self.unit_of(id, charge).is_none_or(moves))
        });
        self.limit_less(count(busy))
    }

    fn limit_less(&self, taken: u32) -> usize {
        usize::try_from(self.limit().saturating_sub(taken)).unwrap_or(usize::MAX)
    }

    fn step(&self, unit: &Unit, charge: &Charge) -> Option<Step> {
        let (id, token) = (unit.id.clone(), charge.token);
        let free = unit.is_eligible() && !self.spec.paused && !is_barred(unit, charge);
        match charge.kind {
            Kind::Fence if charge.skipped || unit.is_eligible() => Some(Step::Fence { unit: id, token }),
            Kind::Abandon if self.may_withdraw => Some(Step::Abandon { unit: id, token }),
            Kind::Withdraw if free && !unit.selected() && self.spec.complete => Some(Step::Withdraw {
                unit: id,
                token,
                how: self.spec.withdraw.how,
            }),
            Kind::Assign | Kind::Join | Kind::Relapsed | Kind::Revert if free => {
                let wanted = self.wanted(unit, Some(charge))?;
                let still = charge.digest == Some(wanted.digest);
                still.then_some(Step::Assign {
                    unit: id,
                    revision: wanted.revision,
                    digest: wanted.digest,
                    token,
                })
            }
            _ => None,
        }
    }
}

/// A step that has to fit, by the token that orders it.
type Pending = (Reverse<Token>, UnitId, Step);

/// Keeps the first that fit, and returns the others.
fn split_at(pending: &mut Vec<Pending>, room: usize) -> Vec<Pending> {
    pending.split_off(room.min(pending.len()))
}

impl Step {
    /// The unit whose row it changes.
    pub fn unit(&self) -> Option<&UnitId> {
        match self {
            Self::Assign { unit, .. }
            | Self::Withdraw { unit, .. }
            | Self::Fence { unit, .. }
            | Self::Abandon { unit, .. } => Some(unit),
            Self::Evaluate { .. } | Self::Conclude { .. } => None,
        }
    }
}
