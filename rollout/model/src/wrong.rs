//! Deliberately wrong worlds: each must break a law, or else the model proves nothing. None of this is in releases.

use muster_driver::{Plan, Rules};
use muster_rollout::{
    Decision, Domains, Eligible, Kind, Limit, MAX_BYTES, Memory, Millis, Revision, RunState, Spec, State,
    Step, Token, Unit, Why, plan,
};

/// The error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wrong {
    /// None: the shell and the decision function of releases.
    #[default]
    Nothing,
    /// W2: the memory is written without compare-and-swap.
    NoCompareAndSwap,
    /// W2: a new change gets a token that was issued before.
    SameToken,
    /// W3: an assignment is written without its precondition, and its token may decrease.
    TokenFalls,
    /// W4: a report is accepted by its digest alone.
    NoTokenInReport,
    /// W5: a change is given up without a fence.
    NoFence,
    /// W5: a fence does not raise the assignment's token.
    FenceOfSameToken,
    /// W6: a fenced cluster is not in flight for its current content.
    FenceFrees,
    /// W1: a cluster in flight that the registry view lacks is treated as gone.
    BelievesGone,
    /// W7: a lost memory is rebuilt from a fresh list of assignments, and clusters that the registry view lacks are
    /// left out.
    OldRegistry,
    /// W7: a lost memory is rebuilt from the state of a watch.
    PartialList,
    /// W7: earlier writes are still pending when the memory is lost.
    LateOverLoss,
    /// E1: the limit is exceeded by one.
    LimitAndOne,
    /// E1: unavailable clusters do not count.
    NoBudget,
    /// E2: the domain is ignored.
    NoDomains,
    /// E2: the order of domains is ignored.
    NoOrder,
    /// E3: bad revisions are forgotten.
    NothingBad,
    /// E4: one failure condemns.
    OneFailureCondemns,
    /// E4: a cluster that was not ready before is blamed.
    BlamesAll,
    /// E5: a cluster reverts to a revision that was never good.
    NeverGood,
    /// E6: eligibility is ignored.
    AllEligible,
    /// E6: closed change windows are ignored.
    AlwaysOpen,
    /// E6: a pause is ignored.
    NotPaused,
    /// E7: stages are ignored.
    NoStages,
    /// E8: there is no brake.
    NoBrake,
    /// E9: the cluster that is named first is left out.
    OrderMatters,
    /// E10: each plan issues new tokens.
    NewTokens,
    /// E11: a step is returned only once.
    OnlyOnce,
    /// E12: a waiting cluster is reported as done.
    WrongReason,
    /// E13: messages of clusters are stored unchanged.
    LongMessage,
    /// EL1: a confirmed cluster keeps its slot.
    NeverConfirmed,
    /// EL2: any number may fail.
    NeverCondemns,
    /// EL3: `wake_at` is never set.
    NoWake,
    /// EL4: an absent cluster keeps its slot.
    AwayKeepsSlot,
}

impl Wrong {
    /// Writes may be applied that a precondition should have stopped, so outdated writes cannot be dropped.
    pub fn is_of_writes(self) -> bool {
        matches!(self, Self::TokenFalls | Self::FenceOfSameToken)
    }

    /// Tokens do not mean what they mean in a correct world: one is issued twice, or a report with an old one is
    /// accepted.
    pub fn is_of_tokens(self) -> bool {
        let twice = matches!(self, Self::NoCompareAndSwap | Self::SameToken);
        twice || self.is_of_writes() || self == Self::NoTokenInReport
    }

    /// Whether the error is about planning twice, or there is none.
    pub fn is_of_repetition(self) -> bool {
        matches!(self, Self::Nothing | Self::NewTokens | Self::SameToken)
    }

    /// The decision function of this world.
    pub fn decision(self) -> impl Fn(&Spec, &Memory, &[Unit], Millis) -> Decision {
        move |spec, memory, units, now| self.plan(spec, memory, units, now)
    }

    /// The rules of this world's shell, with its decision function.
    pub fn rules<'a>(self, plan: &'a Plan<'a>) -> Rules<'a> {
        Rules {
            plan,
            tests_assignments: self != Self::TokenFalls,
            fences_raise: self != Self::FenceOfSameToken,
            checks_in_flight: self != Self::BelievesGone,
            checks_holders: self != Self::OldRegistry,
        }
    }

    fn plan(self, spec: &Spec, memory: &Memory, units: &[Unit], now: Millis) -> Decision {
        let (mut spec, mut memory, mut units) = (spec.clone(), memory.clone(), units.to_vec());
        let before = memory.clone();
        self.distort_input(&mut spec, &mut memory, &mut units);
        let mut decision = plan(&spec, &memory, &units, now);
        self.distort_output(&before, &units, &mut decision);
        decision
    }

    fn distort_input(self, spec: &mut Spec, memory: &mut Memory, units: &mut [Unit]) {
        match self {
            Self::LimitAndOne => {
                if let Limit::Count(limit) = &mut spec.limit {
                    *limit += 1;
                }
            }
            Self::NoDomains => spec.domains = Domains::ANY,
            Self::NoOrder => spec.domains.ordered = false,
            Self::NoBudget => spec.unavailable = None,
            Self::AlwaysOpen => {
                for unit in units
                    .iter_mut()
                    .filter(|unit| matches!(unit.eligible, Eligible::Closed { .. }))
                {
                    unit.eligible = Eligible::Yes;
                }
            }
            Self::NothingBad => {
                memory.bad.clear();
                if let Some(run) = memory.run.as_mut().filter(|run| run.state != RunState::Good) {
                    run.state = RunState::Open;
                }
            }
            Self::NeverCondemns => spec.max_failed = Limit::Count(9),
            Self::OneFailureCondemns => spec.max_failed = Limit::Count(0),
            Self::BlamesAll => memory
                .in_flight
                .values_mut()
                .for_each(|change| change.was_ready = true),
            Self::NeverGood => memory.last_good = memory.last_good.map(|_| Revision::new([7; 16])),
            Self::AllEligible => units.iter_mut().for_each(|unit| unit.eligible = Eligible::Yes),
            Self::NotPaused => spec.paused = false,
            Self::NoStages => spec.stages.clear(),
            Self::NoBrake => spec.withdraw.brake = None,
            Self::OrderMatters => {
                if let Some(first) = units.first_mut()
                    && let Eligible::Yes = first.eligible
                {
                    first.domain = None;
                    first.assigned = None;
                }
            }
            Self::NeverConfirmed => units.iter_mut().for_each(unconfirmed),
            Self::AwayKeepsSlot => spec.deadlines.absence = Millis(u64::MAX),
            _ => {}
        }
    }

    fn distort_output(self, before: &Memory, units: &[Unit], decision: &mut Decision) {
        match self {
            Self::SameToken => {
                let greatest = units.iter().map(Unit::token).max().unwrap_or_default();
                let last = before.seq.max(greatest);
                if decision.memory.seq > last {
                    renumber(decision, decision.memory.seq, last);
                }
            }
            Self::NewTokens => {
                let (old, new) = (decision.memory.seq, decision.memory.seq.next());
                renumber(decision, old, new);
            }
            Self::NoFence => {
                let changes = &mut decision.memory.in_flight;
                changes.retain(|_, change| change.kind != Kind::Fence || change.skipped);
                decision.steps.retain(|step| !matches!(step, Step::Fence { .. }));
            }
            Self::OnlyOnce => {
                let known = |step: &Step| {
                    let change = step
                        .unit()
                        .and_then(|unit| Some((before.in_flight.get(unit)?, unit)));
                    change.is_some_and(|(was, unit)| {
                        decision
                            .memory
                            .in_flight
                            .get(unit)
                            .is_some_and(|change| change.token == was.token)
                    })
                };
                decision.steps.retain(|step| !known(step));
            }
            Self::WrongReason => {
                for (_, why) in &mut decision.reasons {
                    if let Why::WaitingTurn { .. } = why {
                        *why = Why::UpToDate;
                    }
                }
            }
            Self::LongMessage => {
                for evidence in decision.memory.bad.values_mut() {
                    evidence.message = "x".repeat(MAX_BYTES).into();
                }
            }
            Self::NoWake => decision.wake_at = None,
            _ => {}
        }
    }
}

fn unconfirmed(unit: &mut Unit) {
    if let Some(report) = unit
        .observed
        .as_mut()
        .filter(|report| report.state == State::Succeeded)
    {
        report.state = State::Updating;
    }
}

/// All assignments with this token get that one.
fn renumber(decision: &mut Decision, from: Token, to: Token) {
    let renumber_token = |token: &mut Token| {
        if *token == from {
            *token = to;
        }
    };
    renumber_token(&mut decision.memory.seq);
    for change in decision.memory.in_flight.values_mut() {
        renumber_token(&mut change.token);
        change.sent.iter_mut().for_each(renumber_token);
    }
    for step in &mut decision.steps {
        match step {
            Step::Assign { token, .. }
            | Step::Withdraw { token, .. }
            | Step::Fence { token, .. }
            | Step::Abandon { token, .. } => renumber_token(token),
            Step::Evaluate { .. } | Step::Conclude { .. } => {}
        }
    }
}
