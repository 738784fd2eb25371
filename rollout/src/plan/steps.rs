//! The steps: what the memory intends and the assignments do not contain yet. So a lost step is repeated with its
//! token, and a completed one is not.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Pass;
use super::budget::is_unavailable;
use super::limit::count;
use super::window::is_barred;
use crate::{InFlight, Kind, Step, Token, Unit, UnitId};

impl Pass<'_> {
    pub(super) fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut fresh, mut doubtful): (Vec<Pending>, Vec<Pending>) = Default::default();
        let (mut returned, mut repeated): (Vec<Pending>, Vec<Pending>) = Default::default();
        for (id, change) in &self.memory.in_flight {
            let Some(unit) = self.unit_of(id, change).filter(|unit| !change.is_written(unit)) else {
                continue;
            };
            match self.step(unit, change) {
                Some(step @ (Step::Withdraw { .. } | Step::Abandon { .. })) => steps.push(step),
                // No observer counts a unit without content when it is fenced, even if no unit is selected and the
                // limit is zero.
                Some(step @ Step::Fence { .. }) if unit.carries().is_none() => steps.push(step),
                Some(step) if change.counts() && change.sent.is_none() => {
                    let pending = if change.doubtful {
                        &mut doubtful
                    } else {
                        &mut fresh
                    };
                    // Units written last come first: an observer most likely counts them already.
                    pending.push((Reverse(unit.token()), id.clone(), step));
                }
                Some(step) if change.counts() && !change.is_counted(unit) => {
                    let pending = if change.returned {
                        &mut returned
                    } else {
                        &mut repeated
                    };
                    pending.push((Reverse(change.token), id.clone(), step));
                }
                step => steps.extend(step),
            }
        }
        // Newest first: an older write of a unit that returned may still arrive until a newer one is there.
        returned.sort_unstable();
        repeated.sort_unstable();
        // A returned unit is above the limit, and a change issued before may still arrive there: the others wait for
        // it.
        let mut crowded = split_at(&mut repeated, self.room_to_repeat(|change| change.returned));
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
            if let Some(change) = self.memory.in_flight.get_mut(&id) {
                let found = row.filter(|unit| change.is_found(unit));
                let first = found.map_or(change.token, Unit::token);
                (change.sent, change.doubtful) = (Some(first), false);
            }
        }
        steps.sort_unstable_by(|one, other| one.unit().cmp(&other.unit()));
        steps
    }

    /// A unit to which nothing was sent yet is written only if the limit has room for it, even if the limit was lowered
    /// or other units returned since the change was decided. Each doubtful unit waits for all others except doubtful
    /// ones, and the others wait for the doubtful ones. Keeps the first that fit, and returns the rest.
    fn split_fresh(&self, doubtful: &mut Vec<Pending>, others: &mut Vec<Pending>) -> Vec<Pending> {
        doubtful.sort_unstable();
        others.sort_unstable();
        let taken = self.memory.in_flight.iter().filter(|(id, change)| {
            // A unit that was adopted for its assignment and is not in the view: perhaps nothing was sent to it, but an
            // observer may count it.
            let moves = |unit: &Unit| (change.is_written(unit) || change.doubtful) && !unit.is_quiet();
            change.counts() && (change.sent.is_some() || self.unit_of(id, change).is_none_or(moves))
        });
        let taken = count(taken);
        let among_themselves = taken.saturating_sub(count(doubtful.iter()));
        let mut crowded = split_at(others, self.limit_less(taken));
        crowded.extend(split_at(doubtful, self.limit_less(among_themselves)));
        crowded
    }

    /// The same for the budget, as other units may have become unavailable since. Removes those that do not fit, and
    /// stores their names.
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

    /// A change that was sent and may be lost is repeated only if it fits beside the units that are changing: if other
    /// units returned since, it waits for them. `beside` selects the changes whose slot is taken whatever was observed.
    fn room_to_repeat(&self, beside: impl Fn(&InFlight) -> bool) -> usize {
        let busy = self.memory.in_flight.iter().filter(|(id, change)| {
            let moves = |unit: &Unit| change.is_counted(unit) || change.is_written(unit) && !unit.is_quiet();
            // An assignment is emptied instead of the change that it replaces, which may still arrive until then.
            let taken = change.kind.empties() || beside(change);
            change.counts() && (taken || self.unit_of(id, change).is_none_or(moves))
        });
        self.limit_less(count(busy))
    }

    fn limit_less(&self, taken: u32) -> usize {
        usize::try_from(self.limit().saturating_sub(taken)).unwrap_or(usize::MAX)
    }

    fn step(&self, unit: &Unit, change: &InFlight) -> Option<Step> {
        let (id, token) = (unit.id.clone(), change.token);
        let free = unit.is_eligible() && !self.spec.paused && !is_barred(unit, change);
        match change.kind {
            Kind::Fence if change.skipped || unit.is_eligible() => Some(Step::Fence { unit: id, token }),
            Kind::Abandon if self.may_withdraw => Some(Step::Abandon { unit: id, token }),
            Kind::Withdraw if free && !unit.selected() && self.spec.complete => Some(Step::Withdraw {
                unit: id,
                token,
                how: self.spec.withdraw.how,
            }),
            Kind::Assign | Kind::Join | Kind::Relapsed | Kind::Revert if free => {
                let wanted = self.next_content(unit, Some(change))?;
                let still = change.digest == Some(wanted.digest);
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

/// A step that has to fit into the limit, with its sort key.
type Pending = (Reverse<Token>, UnitId, Step);

/// Keeps the first that fit, and returns the others.
fn split_at(pending: &mut Vec<Pending>, room: usize) -> Vec<Pending> {
    pending.split_off(room.min(pending.len()))
}

impl Step {
    /// The unit whose assignment the step changes.
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
