//! Rules 1, 4, 5: what a report means for an in-flight change. A report about another digest or token means nothing.

use super::Pass;
use crate::{Absence, Class, Content, Eligible, InFlight, Kind, State, Unit, UnitId};

/// The result for an in-flight change.
enum Fate {
    /// The unit is confirmed, or there is nothing left to confirm.
    Ends,
    /// The change stays in flight.
    Stays(InFlight),
}

impl Pass<'_> {
    /// Rule 8: a unit that left takes no slot and counts as no failure. Only a complete read shows that it left.
    pub(super) fn release_gone(&mut self) {
        if !self.spec.complete {
            return;
        }
        let mut changes = std::mem::take(&mut self.memory.in_flight);
        changes.retain(|id, change| self.unit_of(id, change).is_some());
        self.memory.in_flight = changes;
        if self.open_run().is_some() {
            self.forget_marks();
        }
    }

    fn forget_marks(&mut self) {
        let left = |id: &UnitId| !self.unit(id).is_some_and(Unit::selected);
        let left: Vec<UnitId> = self.memory.marks.keys().filter(|id| left(id)).cloned().collect();
        for id in left {
            self.memory.marks.remove(&id);
            // If it is selected again while it is still in flight, it may fail again.
            if let Some(change) = self.memory.in_flight.get_mut(&id) {
                (change.failed, change.marked) = (false, false);
            }
        }
    }

    pub(super) fn read_evidence(&mut self) {
        for (id, change) in std::mem::take(&mut self.memory.in_flight) {
            let fate = match self.unit_of(&id, &change) {
                Some(unit) => self.assess(unit, change),
                None => Fate::Stays(self.miss(None, change)),
            };
            if let Fate::Stays(change) = fate {
                self.memory.in_flight.insert(id, change);
            }
        }
    }

    fn assess(&mut self, unit: &Unit, change: InFlight) -> Fate {
        if change.kind == Kind::Abandon {
            let stays = self.weigh_abandoned(unit, confirmed(unit, change));
            return stays.map_or(Fate::Ends, Fate::Stays);
        }
        let change = match read_assignment(unit, change) {
            Fate::Stays(change) => confirmed(unit, change),
            Fate::Ends => return Fate::Ends,
        };
        let change = match change.kind {
            Kind::Withdraw => match weigh_withdrawal(unit, change) {
                Fate::Stays(change) => change,
                Fate::Ends => return Fate::Ends,
            },
            Kind::Assign | Kind::Join | Kind::Relapsed | Kind::Revert => match self.weigh(unit, change) {
                Fate::Stays(change) => change,
                Fate::Ends => return Fate::Ends,
            },
            Kind::Fence | Kind::Abandon => change,
        };
        Fate::Stays(self.attend(unit, change))
    }

    /// Rule 4, for a change that stays in flight: handles its eligibility.
    pub(super) fn attend(&mut self, unit: &Unit, change: InFlight) -> InFlight {
        if unit.is_eligible() {
            returned(unit, change)
        } else {
            self.miss(Some(unit), change)
        }
    }

    /// Rule 1: confirmed or not; rules 5 and 6: overdue or failed.
    fn weigh(&mut self, unit: &Unit, mut change: InFlight) -> Fate {
        let report = change.report(unit);
        if report.is_some() && !change.picked_up {
            change.picked_up = true;
            change.clock = crate::Stopwatch::default();
        }
        match report {
            Some(State::Succeeded) => {
                let since = *change.succeeded_since.get_or_insert(self.now);
                // A success counts even if the unit is not eligible now; a success that lasts must be observed.
                let observed = unit.is_eligible() || self.spec.min_ready.0 == 0;
                if observed && self.now.since(since) >= self.spec.min_ready {
                    return Fate::Ends;
                }
            }
            Some(State::Progressing(progress)) => {
                change.succeeded_since = None;
                change.clock.advance(progress.done, self.now);
            }
            Some(State::Updating | State::Failed { .. }) => change.succeeded_since = None,
            // The success is no longer about what the cluster has: the deadline continues at once, not only in the next
            // decision.
            None if !self.spec.paused && self.is_overtaken(unit, &change) => change.succeeded_since = None,
            Some(State::Unknown | State::Withdrawn) | None => {}
        }
        let held_up = match report {
            Some(State::Failed { class, .. }) => *class == Class::Infra,
            Some(State::Progressing(progress)) => progress.waiting,
            _ => false,
        };
        // Once started, the clock does not stop while a greater token is written for the same change (see `overtake`),
        // unless that write is refused.
        let refused = self.refusal(unit, &change).is_some();
        let begun = change.clock != crate::Stopwatch::default() && !self.spec.paused && !refused;
        let written = change.is_written(unit) || begun;
        let counts = unit.is_eligible() && written && change.succeeded_since.is_none() && !held_up;
        change.clock.set(counts, self.now);
        if unit.selected() && unit.is_eligible() && !change.failed && !refused && self.fails(&change, report)
        {
            change.failed = true;
            let message = match report {
                Some(State::Failed { message, .. }) => message.clone(),
                _ if change.picked_up => "acknowledged, but not finished in time".into(),
                _ => "not acknowledged in time".into(),
            };
            change.marked |= self.mark(unit, &change, message);
        }
        Fate::Stays(change)
    }

    fn fails(&self, change: &InFlight, report: Option<&State>) -> bool {
        match report {
            Some(State::Failed {
                class: Class::Revision,
                terminal: true,
                ..
            }) => true,
            Some(
                State::Failed {
                    class: Class::Infra, ..
                }
                | State::Succeeded,
            ) => false,
            Some(
                State::Failed { .. }
                | State::Updating
                | State::Progressing(_)
                | State::Withdrawn
                | State::Unknown,
            )
            | None => change.is_overdue(&self.spec.deadlines, self.now),
        }
    }

    /// Rule 4: a unit in flight that is not eligible, or is missing from a partial view, keeps its slot for
    /// `deadlines.absence`. Then it is fenced and released, and remembered as unconfirmed, unless the run waits for it.
    fn miss(&mut self, unit: Option<&Unit>, mut change: InFlight) -> InFlight {
        let since = *change.absent_since.get_or_insert(self.now);
        change.clock.set(false, self.now);
        let absence = match unit.map(|unit| unit.eligible) {
            Some(Eligible::No(why)) => why.absence,
            _ => Absence::Skip,
        };
        let over = self.now.since(since) >= self.spec.deadlines.absence;
        if change.skipped || !over || absence == Absence::Wait {
            return change;
        }
        // A unit that never got the change cannot have failed on it.
        let fails = |unit: &&Unit| {
            absence == Absence::Fail && unit.selected() && change.is_written(unit) && !change.failed
        };
        if let Some(unit) = unit.filter(fails) {
            change.marked |= self.mark(unit, &change, "absent for too long".into());
        }
        let token = self.issue();
        InFlight {
            skipped: true,
            ..change.redirected(Kind::Fence, token, change.since)
        }
    }
}

/// Rule 4: a unit that returns unconfirmed is in flight again at once, above the limit if necessary.
pub(super) fn returned(unit: &Unit, change: InFlight) -> InFlight {
    let counted = change.skipped && change.kind != Kind::Withdraw && !unit.is_quiet();
    let sent = change.sent.or_else(|| counted.then_some(unit.token()));
    InFlight {
        sent,
        returned: sent.is_some() && (change.returned || change.skipped),
        doubtful: change.doubtful && sent.is_none(),
        absent_since: None,
        skipped: false,
        ..change
    }
}

/// A change that was issued and is confirmed no longer counts; one that was issued after it may still arrive.
fn confirmed(unit: &Unit, change: InFlight) -> InFlight {
    let over = unit.is_quiet() && change.sent.is_some_and(|first| unit.token() >= first);
    let sent = if over {
        (unit.token() < change.token).then_some(unit.token().next())
    } else {
        change.sent
    };
    InFlight {
        sent,
        returned: change.returned && sent.is_some(),
        doubtful: change.doubtful && sent.is_none() && !unit.is_quiet(),
        ..change
    }
}

/// What the assignment means for the change: it is written, or the assignment is newer, and that is what has to be
/// confirmed now (W6: for a fenced unit, its current content).
fn read_assignment(unit: &Unit, mut change: InFlight) -> Fate {
    let Some(row) = unit.assigned.filter(|row| row.token >= change.token) else {
        return Fate::Stays(change);
    };
    if row.token == change.token && change.kind != Kind::Fence {
        return Fate::Stays(change);
    }
    // The change's own fence was issued. A newer assignment is treated like an adopted one: it is unknown whether it
    // was confirmed.
    let fenced = row.token == change.token;
    change.sent = change.sent.or_else(|| fenced.then_some(row.token));
    match row.content {
        Content::Nothing => Fate::Ends,
        Content::Withdraw => Fate::Stays(change.redirected(Kind::Withdraw, row.token, change.since)),
        Content::Carries { revision, digest } => {
            let found = change.redirected(Kind::Assign, row.token, change.since);
            Fate::Stays(InFlight {
                revision,
                digest: Some(digest),
                doubtful: found.sent.is_none(),
                unbegun: found.unbegun && fenced,
                resumed: false,
                ..found
            })
        }
    }
}

fn weigh_withdrawal(unit: &Unit, mut change: InFlight) -> Fate {
    let reported = unit.state_at(None, change.token) == Some(&State::Withdrawn);
    let withdrawn = reported && change.is_written(unit);
    let tidied = unit
        .assigned
        .is_some_and(|row| row.content == Content::Nothing && row.token >= change.token);
    if withdrawn || tidied {
        return Fate::Ends;
    }
    change.sent = change.sent.filter(|_| !change.is_written(unit));
    change.returned &= change.sent.is_some();
    Fate::Stays(change)
}
