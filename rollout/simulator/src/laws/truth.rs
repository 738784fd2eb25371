//! E12: the conditions that make each reason true, from the facts alone.

use std::collections::BTreeSet;

use muster_rollout::{
    Class, Content, Course, Desired, Eligible, InFlight, Kind, Millis, RunState, Stage, StageId,
    StagePosition, State, Unit, UnitId, Why,
};

use super::{Case, disrupted, selected};

/// The facts about one unit.
pub(super) struct Facts<'a> {
    pub(super) case: Case<'a>,
    pub(super) shared: &'a SharedFacts<'a>,
    pub(super) unit: &'a Unit,
}

/// Facts about all units of a decision, computed once.
pub(super) struct SharedFacts<'a> {
    up_to_date: BTreeSet<&'a UnitId>,
    /// Units that are changing, and selected units that are unavailable.
    disrupted: BTreeSet<&'a UnitId>,
    /// Number of units that are selected and not excluded.
    selected: u32,
    /// Number of units in flight that take a slot.
    counting: usize,
    /// Number of units that are being withdrawn from.
    withdrawing: usize,
}

impl<'a> SharedFacts<'a> {
    pub(super) fn of(case: &Case<'a>) -> Self {
        let changes = || case.decision.memory.in_flight.values();
        let reasons = case.decision.reasons.iter();
        Self {
            up_to_date: reasons
                .filter(|(_, why)| *why == Why::UpToDate)
                .map(|(id, _)| id)
                .collect(),
            disrupted: disrupted(case).collect(),
            selected: selected(case.view),
            counting: changes().filter(|change| change.counts()).count(),
            withdrawing: changes().filter(|change| withdraws(change)).count(),
        }
    }
}

fn withdraws(change: &InFlight) -> bool {
    change.kind == Kind::Withdraw && !change.skipped
}

#[allow(clippy::too_many_lines, reason = "the table has one entry per case")]
pub(super) fn holds(it: &Facts<'_>, why: &Why) -> bool {
    let active = it.in_flight().filter(|change| !change.skipped);
    let changing = |is: &dyn Fn(&InFlight) -> bool| it.unit.selected() && active.is_some_and(is);
    match why {
        Why::Ineligible { since, .. } => {
            it.unit.eligible != Eligible::Yes
                && *since == it.in_flight().and_then(|change| change.absent_since)
        }
        Why::WithdrawalHeld { units, .. } => !it.unit.selected() && *units > 1,
        // An abandoned unit is being withdrawn from too, if its assignment is a withdrawal.
        Why::Withdrawing { .. } => active.is_some_and(|change| {
            matches!(change.kind, Kind::Withdraw | Kind::Fence) || it.content() == Some(Content::Withdraw)
        }),
        Why::WriteFailed { since, overdue, .. } => active.is_some_and(|change| {
            let refusal = it.case.spec.refused.get(&it.unit.id);
            let refused = refusal.is_some_and(|refusal| refusal.token == change.token);
            let late = it.case.now >= change.since.plus(it.case.spec.deadlines.pickup);
            refused && it.unit.token() < change.token && *since == change.since && *overdue == late
        }),
        Why::Failed { class, since, .. } => {
            let same_class =
                matches!(it.state(), Some(State::Failed { class: reported, .. }) if reported == class);
            let since_in_flight = |at: Millis| {
                let change = it
                    .in_flight()
                    .filter(|change| at >= change.since && at <= it.case.now);
                // A unit that was released for its absence failed at its content, if it was ready before and should not
                // keep it.
                let released = |change: &InFlight| change.was_ready && (!it.is_there() || it.is_refused());
                change.is_some_and(|change| !change.skipped || released(change))
            };
            let is_so = since.map_or_else(|| active.is_none() && it.is_there(), since_in_flight);
            same_class && *class != Class::Infra && is_so
        }
        Why::AlreadyUnready { .. } => !it.in_flight().is_some_and(|change| change.was_ready),
        Why::Overdue { .. } => changing(&|change| {
            let (deadlines, spent) = (&it.case.spec.deadlines, it.spent(change));
            let in_all = change.clock.before.plus(spent);
            let late = spent >= deadlines.progress || deadlines.total.is_some_and(|total| in_all >= total);
            change.picked_up && late
        }),
        Why::NotPickedUp { .. } => {
            changing(&|change| !change.picked_up && it.spent(change) >= it.case.spec.deadlines.pickup)
        }
        Why::Relapsed { .. } => changing(&|change| change.kind == Kind::Relapsed),
        Why::Updating {
            since,
            until,
            picked_up,
            ..
        } => changing(&|change| {
            (change.since, change.picked_up) == (*since, *picked_up)
                && until.is_none_or(|at| at > it.case.now)
        }),
        Why::Soaking { until, .. } => {
            it.state() == Some(&State::Succeeded)
                && *until > it.case.now
                && changing(&|change| change.succeeded_since.is_some())
        }
        Why::KnownBad { .. } => it.is_bad() && !it.is_halted(),
        Why::Halted { .. } => it.is_bad() && it.is_halted(),
        Why::Paused => it.case.spec.paused,
        Why::Unresolved => it.unit.desired == Desired::Unresolved,
        Why::WaitingTurn { holders, limit } => {
            let fills: fn(&InFlight) -> bool = if it.unit.selected() {
                InFlight::counts
            } else {
                withdraws
            };
            let filled = if it.unit.selected() {
                it.shared.counting
            } else {
                it.shared.withdrawing
            };
            let changes = &it.case.decision.memory.in_flight;
            let all = holders.iter().all(|id| changes.get(id).is_some_and(fills));
            // The limit of its stage may be used up by fewer units.
            let of_stage = it.has_stage_limit() && holders.len() >= 3.min(*limit as usize);
            all && filled >= *limit as usize && (holders.len() == filled.min(3) || of_stage)
        }
        Why::Pinned { .. } => it.unit.pinned,
        Why::Reverting { .. } => changing(&|change| change.kind == Kind::Revert),
        Why::Aborted { .. } => it.is_refused() && !it.is_bad(),
        Why::NotYet { reason } => it.unit.eligible == Eligible::NotYet(*reason),
        Why::Closed { reason } => matches!(it.unit.eligible, Eligible::Closed { why, .. } if why == *reason),
        Why::WaitingApproval { stage } => {
            let needs_approval = it
                .open_stage()
                .is_some_and(|open| open.name == *stage && open.approval);
            needs_approval && it.course().clear_since.is_some()
        }
        Why::WaitingGate { stage, passes, .. } => {
            it.open_stage().is_some_and(|open| open.name == *stage) && passes.0 < passes.1
        }
        Why::WaitingStage { stage, units, until } => {
            let open = it.open_stage().is_some_and(|open| open.name == *stage);
            let known = |id: &UnitId| {
                it.case.decision.memory.in_flight.contains_key(id) || !it.shared.up_to_date.contains(id)
            };
            let soaks = until.is_some_and(|until| until > it.case.now && it.course().clear_since.is_some());
            open && (soaks || !it.case.spec.complete || !units.is_empty() && units.iter().all(known))
        }
        Why::WaitingDomain { holders } => {
            let domains = it.case.spec.domains;
            let changes = &it.case.decision.memory.in_flight;
            let apart = changes.keys().filter(|id| it.is_apart(id)).count();
            let known = |id: &UnitId| changes.contains_key(id) || !it.shared.up_to_date.contains(id);
            let other = domains.at_once.is_some() && (apart > 0 || domains.ordered);
            let own = domains.limit.is_some() && changes.len() > apart;
            !holders.is_empty() && holders.iter().all(known) && (other || own)
        }
        Why::WaitingBudget { holders, limit } => {
            let named = holders.iter().all(|id| it.shared.disrupted.contains(id));
            let full = it.shared.disrupted.len() >= *limit as usize;
            let uses = !it.unit.selected() || it.unit.available && it.unit.is_eligible();
            let budget = it
                .case
                .spec
                .unavailable
                .map(|budget| super::amount(budget, it.shared.selected));
            budget == Some(*limit) && full && uses && named && (*limit == 0 || !holders.is_empty())
        }
        Why::WaitingBatch { size, holders } => {
            let open = it.course().batch;
            open.is_some_and(|open| open.size == *size && open.left == 0) && !holders.is_empty()
        }
        Why::WaitingRead => !it.case.spec.complete || it.case.before.rebuilt,
        Why::UpToDate => {
            it.is_there()
                && active.is_none()
                && !matches!(it.state(), Some(State::Failed { class, .. }) if *class != Class::Infra)
        }
        Why::Excluded if it.unit.selected() => it.unit.place == StagePosition::Excluded,
        Why::Excluded => {
            let nothing = !matches!(it.content(), Some(Content::Carries { .. }));
            !it.unit.selected() && (nothing || it.case.spec.abandoned.contains(&it.unit.id))
        }
    }
}

impl<'a> Facts<'a> {
    fn in_flight(&self) -> Option<&'a InFlight> {
        let change = self.case.decision.memory.in_flight.get(&self.unit.id)?;
        (change.incarnation == self.unit.incarnation).then_some(change)
    }

    fn content(&self) -> Option<Content> {
        self.unit.assigned.map(|row| row.content)
    }

    /// The reported state at its assignment.
    fn state(&self) -> Option<&'a State> {
        let (row, report) = (self.unit.assigned?, self.unit.observed.as_ref()?);
        let Content::Carries { digest, .. } = row.content else {
            return None;
        };
        (report.token == row.token && report.digest == Some(digest)).then_some(&report.state)
    }

    fn is_there(&self) -> bool {
        match (self.unit.desired, self.content()) {
            (Desired::Content { digest, .. }, Some(Content::Carries { digest: carried, .. })) => {
                digest == carried
            }
            _ => false,
        }
    }

    fn spent(&self, change: &InFlight) -> Millis {
        let running = change
            .clock
            .from
            .map_or(Millis(0), |from| self.case.now.since(from));
        change.clock.spent.plus(running)
    }

    fn has_stage_limit(&self) -> bool {
        let StagePosition::Stage(place) = self.unit.place else {
            return false;
        };
        let stage = self.case.spec.stages.get(usize::from(place));
        stage.is_some_and(|stage| stage.limit.is_some())
    }

    /// A unit of another domain, or one that is not in the view.
    fn is_apart(&self, id: &UnitId) -> bool {
        let domain = |unit: &Unit| unit.domain.ok_or_else(|| unit.id.clone());
        let life = self
            .case
            .decision
            .memory
            .in_flight
            .get(id)
            .map(|change| change.incarnation);
        let other = self.case.unit(id);
        let other = other.filter(|unit| Some(unit.incarnation) == life);
        other.is_none_or(|other| domain(other) != domain(self.unit))
    }

    fn course(&self) -> &Course {
        &self.case.decision.memory.course
    }

    /// The first stage that is not passed.
    fn open_stage(&self) -> Option<&'a Stage> {
        let passed = &self.case.decision.memory.course.passed;
        let mut stages = self.case.spec.stages.iter();
        stages.find(|stage| !passed.contains(&StageId::of(&stage.name)))
    }

    fn is_refused(&self) -> bool {
        matches!(self.unit.desired, Desired::Content { revision, .. } if self.case.decision.memory.refuses(revision))
    }

    fn is_bad(&self) -> bool {
        matches!(self.unit.desired, Desired::Content { revision, .. } if self.case.decision.memory.is_bad(revision))
    }

    /// The run of its desired content is halted: the target and the unit's content are read at different times.
    fn is_halted(&self) -> bool {
        let run = self
            .case
            .decision
            .memory
            .run
            .filter(|run| run.state == RunState::Halted);
        run.is_some_and(
            |run| matches!(self.unit.desired, Desired::Content { revision, .. } if revision == run.target),
        )
    }
}
