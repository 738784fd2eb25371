//! Rule 15: exactly one reason for each unit, and a true one.

use std::sync::Arc;

use super::{Pass, budget::Budget, domain::DomainWindows, next_content::waits, withdraw};
use crate::{
    Class, Desired, Eligible, InFlight, Kind, MAX_IN_FLIGHT, Millis, Revision, RunState, StagePosition,
    State, Summary, Unit, UnitId, Why,
};

/// The limit is never larger than what the memory can store.
#[allow(clippy::cast_possible_truncation)] // five hundred
const MOST: u32 = MAX_IN_FLIGHT as u32;

/// The reasons shared by all waiting units, computed once.
struct Windows<'a> {
    change: Why,
    withdrawal: Why,
    /// For units of later stages.
    stage: Option<Why>,
    /// For units of other domains.
    domain: Why,
    domains: DomainWindows<'a>,
    /// With a budget: what is left of it, and the reason of units that do not fit.
    budget: Option<(Budget, Why)>,
    /// If the batch is full.
    batch: Option<Why>,
    /// By stage index, if the stage's limit is used up.
    stages: Vec<Option<Why>>,
}

impl Windows<'_> {
    /// The reason if the budget has no room for a unit that uses it. `uses` is called only if there is a budget.
    fn lacks_budget(&self, uses: impl Fn() -> bool) -> Option<&Why> {
        let (budget, why) = self.budget.as_ref()?;
        (!budget.admit(uses())).then_some(why)
    }
}

impl Pass<'_> {
    /// The reasons, and the counts derived from them.
    pub(super) fn reasons_and_summary(&self) -> (Vec<(UnitId, Why)>, Summary) {
        let windows = Windows {
            change: Why::WaitingTurn {
                holders: self.holders(InFlight::counts),
                limit: self.limit().min(MOST),
            },
            withdrawal: Why::WaitingTurn {
                holders: self.holders(withdraw::is_active),
                limit: self.withdraw_limit(),
            },
            stage: self.why_stage(),
            domain: Why::WaitingDomain {
                holders: self.holders(InFlight::counts),
            },
            domains: self.domains(),
            budget: self.full_budget().map(|why| (self.budget(), why)),
            batch: self.full_batch().map(|size| Why::WaitingBatch {
                holders: self.holders(InFlight::counts),
                size,
            }),
            stages: self.full_stages(),
        };
        let mut summary = self.summary();
        let mut reasons = Vec::with_capacity(self.units.len());
        for (unit, change) in self.with_in_flight() {
            let change = change.filter(|change| change.incarnation == unit.incarnation);
            let why = self.why(unit, change, &windows);
            summary.add(unit, change, &why);
            reasons.push((unit.id.clone(), why));
        }
        (reasons, summary)
    }

    fn why(&self, unit: &Unit, change: Option<&InFlight>, windows: &Windows<'_>) -> Why {
        let held = change.filter(|change| !change.skipped);
        let why = match held {
            Some(change) if let Some(why) = self.why_not_written(unit, change) => why,
            Some(change) if let Some(why) = self.why_held_back(unit, change) => why,
            Some(change) if change.kind == Kind::Withdraw && (!unit.selected() || unit.being_withdrawn()) => {
                withdrawing(unit, change)
            }
            _ if !unit.selected() => self.why_leaving(unit, change, windows),
            Some(change) if change.kind != Kind::Withdraw => self.why_in_flight(unit, change, windows),
            _ => self.why_not_in_flight(unit, change, windows),
        };
        let why = if unit.pinned && unit.selected() {
            pinned(unit, why)
        } else {
            why
        };
        match unit.eligible {
            Eligible::No(reason) if reason.rank <= why.rank() => Why::Ineligible {
                reason,
                since: change.and_then(|change| change.absent_since),
            },
            Eligible::No(_) | Eligible::NotYet(_) | Eligible::Closed { .. } | Eligible::Yes => why,
        }
    }

    fn why_leaving(&self, unit: &Unit, change: Option<&InFlight>, windows: &Windows<'_>) -> Why {
        match (&self.held, change) {
            _ if self.is_abandoned(unit) => Why::Excluded,
            (_, Some(change)) if unit.carries().is_none() && change.kind != Kind::Abandon => {
                withdrawing(unit, change)
            }
            _ if unit.carries().is_none() => Why::Excluded,
            (Some((acknowledge, units)), _) if !self.moves(unit) => Why::WithdrawalHeld {
                acknowledge: acknowledge.clone(),
                units: *units,
            },
            _ if self.spec.paused => Why::Paused,
            _ if !self.may_withdraw => Why::WaitingRead,
            _ => match unit.eligible {
                Eligible::NotYet(reason) => Why::NotYet { reason },
                Eligible::Closed {
                    why: reason,
                    withdrawals: false,
                    ..
                } => Why::Closed { reason },
                Eligible::Closed { .. } | Eligible::No(_) | Eligible::Yes => windows
                    .lacks_budget(|| self.uses_budget(unit))
                    .unwrap_or(&windows.withdrawal)
                    .clone(),
            },
        }
    }

    fn why_in_flight(&self, unit: &Unit, change: &InFlight, windows: &Windows<'_>) -> Why {
        if !change.is_written(unit) {
            return self.why_unwritten(unit, change, windows);
        }
        let deadlines = &self.spec.deadlines;
        let (since, until) = (
            change.since,
            change.deadline(deadlines).filter(|_| !change.failed),
        );
        let overdue = change.is_overdue(deadlines, self.now);
        match change.report(unit) {
            Some(State::Succeeded) => {
                let since = change.succeeded_since.unwrap_or(self.now);
                Why::Soaking {
                    since,
                    until: since.plus(self.spec.min_ready),
                }
            }
            Some(State::Failed { message, .. }) if !change.was_ready => Why::AlreadyUnready {
                message: Some(message.clone()),
                since: Some(since),
            },
            Some(State::Failed {
                class: Class::Infra,
                message,
                ..
            }) => updating(change, until, Some(message.clone())),
            Some(State::Failed { class, message, .. }) => Why::Failed {
                class: *class,
                message: message.clone(),
                since: Some(self.failed_since(unit, change)),
                until,
            },
            _ if overdue && !change.was_ready => Why::AlreadyUnready {
                message: None,
                since: Some(since),
            },
            _ if overdue && change.picked_up => Why::Overdue { since },
            _ if overdue => Why::NotPickedUp { since },
            _ if change.kind == Kind::Relapsed => Why::Relapsed { since, until },
            _ => updating(change, until, None),
        }
    }

    /// When its failure was counted, if it was for this change; otherwise since when it is in flight, as no other time
    /// is stored.
    fn failed_since(&self, unit: &Unit, change: &InFlight) -> Millis {
        let counted = self.memory.marks.get(&unit.id).copied();
        counted
            .filter(|at| change.failed && *at >= change.since)
            .unwrap_or(change.since)
    }

    /// In flight, but not written in the assignment yet: in progress, or held up.
    fn why_unwritten(&self, unit: &Unit, change: &InFlight, windows: &Windows<'_>) -> Why {
        let condemned = match unit.desired {
            Desired::Unresolved => return Why::Unresolved,
            Desired::Content { revision, .. } if change.kind != Kind::Revert => self.why_refused(revision),
            Desired::Content { .. } | Desired::Nothing => None,
        };
        match condemned {
            Some(why) => why,
            None if self.spec.paused => Why::Paused,
            None if self.beyond_budget.contains(&unit.id)
                && let Some((_, why)) = &windows.budget =>
            {
                why.clone()
            }
            None if self.crowded.contains(&unit.id) => windows.change.clone(),
            None => updating(change, None, None),
        }
    }

    fn why_not_in_flight(&self, unit: &Unit, change: Option<&InFlight>, windows: &Windows<'_>) -> Why {
        let Desired::Content { revision, digest, .. } = unit.desired else {
            return Why::Unresolved;
        };
        // It is selected again, and its withdrawal must still be fenced: it waits for a slot.
        let fenced_off = change.is_none_or(|change| change.skipped);
        let back = self
            .next_content(unit, None)
            .filter(|wanted| wanted.kind == Kind::Revert);
        let carried = unit.carries().map(|(_, carried)| carried);
        let there = fenced_off && back.is_none() && carried == Some(digest);
        let unready = unit
            .failure_at_assignment()
            .map(|(class, message)| (class, message.clone()));
        match (there, unready) {
            (true, Some((class, message))) => Why::Failed {
                class,
                message,
                since: None,
                until: None,
            },
            (true, None) => Why::UpToDate,
            (false, Some((class, message))) => match change {
                // It failed on the slot that its withdrawal took over, not before the change.
                Some(change) if change.was_ready => Why::Failed {
                    class,
                    message,
                    since: Some(self.failed_since(unit, change)),
                    until: None,
                },
                _ => Why::AlreadyUnready {
                    message: Some(message),
                    since: None,
                },
            },
            (false, None) => match self.why_refused(revision).filter(|_| back.is_none()) {
                Some(why) => why,
                None if self.spec.paused => Why::Paused,
                // A previous unit of the same name was not observed to be gone: only a complete read shows it.
                None if !self.spec.complete && self.memory.in_flight.contains_key(&unit.id) => {
                    Why::WaitingRead
                }
                None => self.why_waiting(unit, windows),
            },
        }
    }

    /// Only other units are in its way.
    fn why_waiting(&self, unit: &Unit, windows: &Windows<'_>) -> Why {
        let kind = self
            .next_content(unit, None)
            .map_or(Kind::Assign, |wanted| wanted.kind);
        let in_order = self.is_in_order(unit, kind);
        let place = match unit.place {
            StagePosition::Stage(place) => windows.stages.get(usize::from(place)).cloned().flatten(),
            StagePosition::Last => None,
            StagePosition::Excluded => return Why::Excluded,
        };
        match (unit.eligible, &windows.stage) {
            (Eligible::NotYet(reason), _) if waits(unit, kind) => Why::NotYet { reason },
            (Eligible::Closed { why: reason, .. }, _) if waits(unit, kind) => Why::Closed { reason },
            (_, Some(stage)) if !self.is_open(unit, kind) => stage.clone(),
            _ if let Some(holders) = windows.domains.ahead(unit, in_order) => Why::WaitingDomain { holders },
            _ if !windows.domains.admit(unit, in_order) => windows.domain.clone(),
            _ if let Some(why) = windows.lacks_budget(|| self.uses_budget(unit)) => why.clone(),
            _ => windows
                .batch
                .clone()
                .or(place)
                .unwrap_or_else(|| windows.change.clone()),
        }
    }

    fn why_refused(&self, revision: Revision) -> Option<Why> {
        let Some(evidence) = self.memory.bad.get(&revision).cloned() else {
            return self.memory.refuses(revision).then_some(Why::Aborted { revision });
        };
        let halted = self
            .memory
            .run
            .is_some_and(|run| run.target == revision && run.state == RunState::Halted);
        Some(if halted {
            Why::Halted { revision, evidence }
        } else {
            Why::KnownBad { revision, evidence }
        })
    }
}

/// The problem with the content that the unit is pinned to.
fn pinned(unit: &Unit, why: Why) -> Why {
    let message = match why {
        Why::UpToDate => None,
        Why::KnownBad { evidence, .. } | Why::Halted { evidence, .. } => Some(evidence.message),
        _ => unit.failure_at_assignment().map(|(_, message)| message.clone()),
    };
    Why::Pinned { message }
}

fn withdrawing(unit: &Unit, change: &InFlight) -> Why {
    let message = match unit.state_at(None, change.token) {
        Some(State::Failed { message, .. }) => Some(message.clone()),
        _ => None,
    };
    Why::Withdrawing {
        since: change.since,
        message,
    }
}

fn updating(change: &InFlight, until: Option<Millis>, message: Option<Arc<str>>) -> Why {
    let since = change.since;
    if change.kind == Kind::Revert {
        return Why::Reverting {
            since,
            until,
            message,
        };
    }
    Why::Updating {
        since,
        until,
        picked_up: change.picked_up,
        message,
    }
}
