//! Rule 14: withdrawals from units that are no longer selected: a few at a time, and an acknowledgement is required for
//! many at once.

use super::Pass;
use super::limit::count;
use super::next_content::{NextContent, waits};
use super::window::is_closed;
use crate::id::fnv64;
use crate::{Acknowledged, Eligible, InFlight, Kind, Unit};

impl Pass<'_> {
    /// Rule 8: a unit that is no longer selected, and to which nothing was sent on its slot, leaves at once: no late
    /// write can arrive.
    pub(super) fn release_unsent(&mut self) {
        let mut changes = std::mem::take(&mut self.memory.in_flight);
        changes.retain(|id, change| {
            let left = |unit: &Unit| !unit.selected() && unit.is_quiet();
            let intent = change.kind.is_assignment() && change.sent.is_none() && !change.skipped;
            !intent || !self.unit_of(id, change).is_some_and(left)
        });
        self.memory.in_flight = changes;
    }

    /// A unit that is selected again before its withdrawal was written gets its desired content, on the slot that it
    /// kept, or when there is room. If there is none (the target is bad or unknown), the withdrawal is still fenced
    /// (W5).
    pub(super) fn reverse_withdrawals(&mut self) {
        for (id, change) in self.memory.in_flight.clone() {
            let Some(unit) = self.unit_of(&id, &change).filter(|unit| unit.selected()) else {
                continue;
            };
            let open = is_active(&change) && unit.is_eligible() && !change.is_written(unit);
            let goes_on = |wanted: &NextContent| !is_closed(unit) || !waits(unit, wanted.kind);
            if !open
                || self
                    .next_content(unit, None)
                    .is_some_and(|wanted| goes_on(&wanted))
            {
                continue;
            }
            if change.counts() || self.in_flight_count() < self.limit() {
                let token = self.issue();
                let fence = change.redirected(Kind::Fence, token, self.now);
                self.memory.in_flight.insert(id, fence);
            }
        }
    }

    /// Starts new withdrawals, while there is room. True if any were started.
    pub(super) fn withdraw(&mut self) -> bool {
        if !self.may_withdraw {
            return false;
        }
        let mut any = false;
        let mut leaving: Vec<&Unit> = Vec::new();
        if self.counts.leaving > 0 {
            leaving.extend(self.units.iter().copied().filter(|unit| self.leaves(unit)));
        }
        self.brake(&leaving);
        if self.spec.paused {
            return false;
        }
        let held = self.held.is_some();
        // A withdrawal that was reverted and is not written goes no further: it must not block the unit whose slot it
        // waits for.
        let goes_on = |unit: &Unit, change: &InFlight| !unit.selected() || change.is_written(unit);
        let active = count(self.memory.in_flight.iter().filter(|(id, change)| {
            is_active(change) && self.unit_of(id, change).is_none_or(|unit| goes_on(unit, change))
        }));
        let mut room = self.withdraw_limit().saturating_sub(active);
        let may = |unit: &&Unit| match unit.eligible {
            Eligible::Yes => true,
            Eligible::Closed { withdrawals, .. } => withdrawals,
            Eligible::NotYet(_) | Eligible::No(_) => false,
        };
        let (moving, others): (Vec<&Unit>, Vec<&Unit>) =
            leaving.into_iter().filter(may).partition(|unit| self.moves(unit));
        let others = others.into_iter().filter(|_| !held);
        let mut budget = self.budget();
        for unit in moving.into_iter().chain(others) {
            if room == 0 {
                return any;
            }
            let uses = self.uses_budget(unit);
            if !budget.admit(uses) {
                continue;
            }
            budget.take(uses);
            let slot = self
                .in_flight_of(unit)
                .filter(|change| change.counts() && (change.sent.is_some() || !unit.is_quiet()));
            let change = InFlight {
                sent: slot.map(|change| change.sent.unwrap_or(self.token)),
                was_ready: slot.is_some_and(|change| change.was_ready),
                ..InFlight::new(unit, Kind::Withdraw, self.token, self.now)
            };
            if !self.add_in_flight(unit, change) {
                return any;
            }
            any = true;
            self.issue();
            room -= 1;
            let counted = !self.moves(unit);
            if let Some(acknowledged) = self.memory.acknowledged.as_mut().filter(|_| counted) {
                acknowledged.left = acknowledged.left.wrapping_sub(hash(unit));
            }
        }
        any
    }

    /// Whether the unit must be withdrawn from, and that has not begun.
    pub(super) fn leaves(&self, unit: &Unit) -> bool {
        let begun = self
            .in_flight_of(unit)
            .is_some_and(|change| change.kind == Kind::Withdraw);
        !unit.selected() && unit.carries().is_some() && !begun && !self.is_abandoned(unit)
    }

    /// Whether its content moves to another owner, as the caller says.
    pub(super) fn moves(&self, unit: &Unit) -> bool {
        !unit.selected() && self.spec.withdraw.moving.contains(&unit.id)
    }

    /// Withdrawals above the brake are held until an acknowledgement names exactly their units. It is taken once; it
    /// covers the remaining units, and ends when others join them or the brake no longer needs it. Units that move are
    /// not counted.
    fn brake(&mut self, leaving: &[&Unit]) {
        let leaving: Vec<&Unit> = leaving.iter().copied().filter(|unit| !self.moves(unit)).collect();
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
        let leaving = count(leaving.iter());
        let many = self.brake_limit().is_some_and(|brake| leaving > brake);
        let acknowledged = self.memory.acknowledged.is_some_and(|it| it.left == set);
        if many && !acknowledged {
            self.held = Some((name(set).into(), leaving));
        }
    }
}

/// Whether it takes a slot of the limit of withdrawals.
pub(super) fn is_active(change: &InFlight) -> bool {
    change.kind == Kind::Withdraw && !change.skipped
}

/// A set of units is named by the sum of their hashes, so that single units can be removed from it.
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
