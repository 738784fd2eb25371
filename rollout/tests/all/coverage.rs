//! Which states the histories reached: a generator that never reaches a state proves nothing about it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use muster_rollout::{Decision, Kind, Memory, RunState, Spec, Step, Unit, Verdict, Why};

/// States and events by name, with the number of occurrences.
#[derive(Default)]
pub(crate) struct Coverage(RefCell<BTreeMap<&'static str, u64>>);

impl Coverage {
    pub(crate) fn count_case(&self, what: &'static str) {
        *self.0.borrow_mut().entry(what).or_default() += 1;
    }

    pub(crate) fn note_if(&self, what: &'static str, reached: bool) {
        if reached {
            self.count_case(what);
        }
    }

    /// All of these were reached.
    pub(crate) fn assert_all(&self, wanted: &[&'static str]) {
        let reached = self.0.borrow();
        reached
            .iter()
            .for_each(|(what, times)| println!("{times:>8}  {what}"));
        let never: Vec<_> = wanted
            .iter()
            .filter(|what| !reached.contains_key(**what))
            .collect();
        assert!(never.is_empty(), "never reached: {never:?}");
    }

    /// The facts of one decision.
    pub(crate) fn decided(&self, spec: &Spec, before: &Memory, view: &[Unit], decision: &Decision) {
        self.changes(before, decision);
        self.steps(decision);
        let after = &decision.memory;
        let (was, is) = (before.run, after.run);
        let replaced =
            was.is_some_and(|run| run.state == RunState::Open && is.is_some_and(|it| it.id > run.id));
        self.note_if(
            "a target replaced during a run",
            replaced && !before.in_flight.is_empty(),
        );
        self.note_if(
            "a known bad target",
            is.is_some_and(|run| run.state == RunState::KnownBad),
        );
        let counted = after.in_flight.values().filter(|change| change.counts()).count();
        self.note_if(
            "more in flight than the limit",
            counted > decision.summary.limit as usize,
        );
        self.note_if(
            "a limit of nothing",
            decision.summary.limit == 0 && !view.is_empty(),
        );
        self.note_if("decided on a partial view", !spec.complete);
        self.note_if("an acknowledged withdrawal", after.acknowledged.is_some());
        let unwritten = decision.reasons.iter().any(|(id, why)| {
            *why == Why::Paused
                && after
                    .in_flight
                    .get(id)
                    .is_some_and(|change| change.kind == Kind::Assign)
        });
        self.note_if("paused with a change that is not written", unwritten);
        for (_, why) in &decision.reasons {
            self.count_case(reason(why));
        }
    }

    fn changes(&self, before: &Memory, decision: &Decision) {
        let after = &decision.memory;
        for (id, change) in &after.in_flight {
            let was = before.in_flight.get(id);
            let new = was.is_none_or(|was| was.token != change.token);
            self.note_if(
                "released after its absence",
                change.skipped && !was.is_some_and(|was| was.skipped),
            );
            self.note_if(
                "returned unconfirmed",
                !change.skipped && was.is_some_and(|was| was.skipped),
            );
            self.note_if("relapsed", new && change.kind == Kind::Relapsed);
            self.note_if("the last good first", new && change.kind == Kind::Join);
            self.note_if("only values changed", new && change.values_only);
            self.note_if("not ready before", change.failed && !change.was_ready);
            self.note_if("counted as a failure", change.marked);
            let other = was.is_some_and(|was| was.incarnation != change.incarnation);
            self.note_if("in flight in another incarnation", other);
            let kept = change.kind == Kind::Withdraw && change.counts();
            self.note_if("a withdrawal that still takes a slot of the limit", kept);
            let back = was.is_some_and(|was| was.kind == Kind::Withdraw && change.kind == Kind::Fence);
            self.note_if("reversed", back && !change.skipped);
        }
        let confirmed = before.in_flight.iter().any(|(id, change)| {
            change.counts() && !after.in_flight.contains_key(id) && after.verdict_is_bad()
        });
        self.note_if("confirmed after the halt", confirmed);
    }

    fn steps(&self, decision: &Decision) {
        for step in &decision.steps {
            self.count_case(match step {
                Step::Assign { .. } => "an assignment",
                Step::Withdraw { .. } => "a withdrawal",
                Step::Fence { .. } => "a fence",
                Step::Abandon { .. } => "a unit is abandoned",
                Step::Evaluate { .. } => "a gate is read",
                Step::Conclude {
                    verdict: Verdict::Good,
                    ..
                } => "a good revision",
                Step::Conclude {
                    verdict: Verdict::Bad,
                    ..
                } => "a condemned revision",
            });
        }
    }
}

trait Halted {
    fn verdict_is_bad(&self) -> bool;
}

impl Halted for Memory {
    fn verdict_is_bad(&self) -> bool {
        self.run.is_some_and(|run| run.state == RunState::Halted)
    }
}

/// All that the histories must have reached.
pub(crate) fn wanted() -> Vec<&'static str> {
    let states = [
        "a target replaced during a run",
        "a target that returned",
        "a known bad target",
        "more in flight than the limit",
        "a limit of nothing",
        "decided on a partial view",
        "an acknowledged withdrawal",
        "paused with a change that is not written",
        "released after its absence",
        "returned unconfirmed",
        "relapsed",
        "the last good first",
        "only values changed",
        "not ready before",
        "counted as a failure",
        "in flight in another incarnation",
        "a withdrawal that still takes a slot of the limit",
        "reversed",
        "confirmed after the halt",
        "an assignment",
        "a withdrawal",
        "a fence",
        "a unit is abandoned",
        "a good revision",
        "a condemned revision",
        "compare-and-swap won by the other",
        "written on a view that is not the newest",
        "a write that failed its test",
        "a write that came twice",
        "a write that was lost",
        "memory lost during a run",
        "a gap during a run",
        "held up by its environment",
    ];
    states
        .into_iter()
        .chain(REASONS)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// In the order of [`reason`].
const REASONS: [&str; 30] = [
    "why: Ineligible",
    "why: WithdrawalHeld",
    "why: Withdrawing",
    "why: Failed",
    "why: Overdue",
    "why: NotPickedUp",
    "why: AlreadyUnready",
    "why: Relapsed",
    "why: Updating",
    "why: Soaking",
    "why: KnownBad",
    "why: Halted",
    "why: Paused",
    "why: Unresolved",
    "why: WaitingTurn",
    "why: WaitingRead",
    "why: UpToDate",
    "why: Excluded",
    "why: Pinned",
    "why: Reverting",
    "why: Aborted",
    "why: NotYet",
    "why: WaitingApproval",
    "why: WaitingGate",
    "why: WaitingStage",
    "why: WaitingDomain",
    "why: WaitingBatch",
    "why: WriteFailed",
    "why: Closed",
    "why: WaitingBudget",
];

fn reason(why: &Why) -> &'static str {
    REASONS[match why {
        Why::Ineligible { .. } => 0,
        Why::WithdrawalHeld { .. } => 1,
        Why::Withdrawing { .. } => 2,
        Why::Failed { .. } => 3,
        Why::Overdue { .. } => 4,
        Why::NotPickedUp { .. } => 5,
        Why::AlreadyUnready { .. } => 6,
        Why::Relapsed { .. } => 7,
        Why::Updating { .. } => 8,
        Why::Soaking { .. } => 9,
        Why::KnownBad { .. } => 10,
        Why::Halted { .. } => 11,
        Why::Paused => 12,
        Why::Unresolved => 13,
        Why::WaitingTurn { .. } => 14,
        Why::WaitingRead => 15,
        Why::UpToDate => 16,
        Why::Excluded => 17,
        Why::Pinned { .. } => 18,
        Why::Reverting { .. } => 19,
        Why::Aborted { .. } => 20,
        Why::NotYet { .. } => 21,
        Why::WaitingApproval { .. } => 22,
        Why::WaitingGate { .. } => 23,
        Why::WaitingStage { .. } => 24,
        Why::WaitingDomain { .. } => 25,
        Why::WaitingBatch { .. } => 26,
        Why::WriteFailed { .. } => 27,
        Why::Closed { .. } => 28,
        Why::WaitingBudget { .. } => 29,
    }]
}
