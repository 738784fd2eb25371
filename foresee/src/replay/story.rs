//! The changes from one decision to the next: the phase of the rollout, assignments, verdicts, and each cluster's
//! reason.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::reasons::Reason;
use muster_controllers::module;
use muster_rollout::{Decision, Evidence, Revision, Step, UnitId, Why};
use serde::Serialize;

use super::second;

/// A change, and its clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub word: ChangeDetails,
    /// Empty if it is about the rollout.
    pub clusters: Vec<UnitId>,
}

/// What changed. Clusters with the same change are grouped, in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangeDetails {
    pub what: ChangeKind,
    pub reason: Option<Reason>,
    /// Details; may be empty.
    pub text: String,
}

/// The kind of a change, in the order of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum ChangeKind {
    /// The phase of the rollout.
    Phase,
    /// A revision is marked good or bad.
    Verdict,
    /// A gate must be evaluated.
    Evaluate,
    Assign,
    Withdraw,
    Fence,
    Abandon,
    /// The reason of a cluster changed.
    Reason,
    /// A cluster is no longer observed.
    Gone,
}

impl Change {
    /// The part of it that is about this cluster; all of it without one.
    pub(crate) fn about(self, only: Option<&UnitId>) -> Option<Self> {
        let Some(only) = only else { return Some(self) };
        self.clusters.contains(only).then(|| Self {
            clusters: vec![only.clone()],
            ..self
        })
    }
}

impl ChangeDetails {
    fn new(what: ChangeKind, text: String) -> Self {
        Self {
            what,
            reason: None,
            text,
        }
    }

    /// As text.
    pub(crate) fn to_text(&self) -> String {
        let word = match (self.what, self.reason) {
            (_, Some(reason)) => reason.as_str(),
            (ChangeKind::Phase, None) => "",
            (ChangeKind::Verdict, None) => "verdict",
            (ChangeKind::Evaluate, None) => "read",
            (ChangeKind::Assign, None) => "assign",
            (ChangeKind::Withdraw, None) => "withdraw",
            (ChangeKind::Fence, None) => "fence",
            (ChangeKind::Abandon, None) => "give up",
            (ChangeKind::Reason, None) => "reason",
            (ChangeKind::Gone, None) => "gone",
        };
        let colon = if self.reason.is_some() && !self.text.is_empty() {
            ":"
        } else {
            ""
        };
        format!("{word}{colon} {}", self.text).trim().to_owned()
    }
}

/// The actions of this decision that the previous one did not have.
pub(crate) fn changes(before: Option<&Decision>, now: &Decision) -> Vec<Change> {
    let mut grouped: BTreeMap<ChangeDetails, Vec<UnitId>> = BTreeMap::new();
    if before.map(phase).as_ref() != Some(&phase(now)) {
        grouped.insert(phase(now), Vec::new());
    }
    let steps: BTreeSet<&Step> = before.iter().flat_map(|before| &before.steps).collect();
    for step in now.steps.iter().filter(|step| !steps.contains(step)) {
        grouped
            .entry(taken(step))
            .or_default()
            .extend(step.unit().cloned());
    }
    let reasons = before.iter().flat_map(|before| &before.reasons);
    let mut reasons: BTreeMap<&UnitId, &Why> = reasons.map(|(unit, why)| (unit, why)).collect();
    for (unit, why) in &now.reasons {
        let word = reason(why);
        if reasons.remove(unit).map(reason).as_ref() != Some(&word) {
            grouped.entry(word).or_default().push(unit.clone());
        }
    }
    let gone: Vec<UnitId> = reasons.into_keys().cloned().collect();
    if !gone.is_empty() {
        grouped.insert(ChangeDetails::new(ChangeKind::Gone, String::new()), gone);
    }
    grouped
        .into_iter()
        .map(|(word, clusters)| Change { word, clusters })
        .collect()
}

fn phase(decision: &Decision) -> ChangeDetails {
    let target = decision
        .memory
        .run
        .map(|run| format!(", target {}", short_hash(run.target)));
    let phase = decision.summary.phase;
    ChangeDetails::new(
        ChangeKind::Phase,
        format!("{phase:?}{}", target.unwrap_or_default()),
    )
}

fn taken(step: &Step) -> ChangeDetails {
    match step {
        Step::Assign { revision, token, .. } => ChangeDetails::new(
            ChangeKind::Assign,
            format!("{} (token {token})", short_hash(*revision)),
        ),
        Step::Withdraw { token, how, .. } => {
            ChangeDetails::new(ChangeKind::Withdraw, format!("{how:?} (token {token})"))
        }
        Step::Fence { token, .. } => ChangeDetails::new(ChangeKind::Fence, format!("(token {token})")),
        Step::Abandon { .. } => ChangeDetails::new(ChangeKind::Abandon, String::new()),
        Step::Evaluate { gate } => ChangeDetails::new(
            ChangeKind::Evaluate,
            format!("gate {} of stage {}", gate.gate + 1, gate.stage + 1),
        ),
        Step::Conclude {
            revision,
            verdict,
            evidence,
        } => {
            let evidence = evidence
                .as_ref()
                .map(|observed| format!(", {}", witness(observed)));
            let text = format!(
                "{verdict:?}: {}{}",
                short_hash(*revision),
                evidence.unwrap_or_default()
            );
            ChangeDetails::new(ChangeKind::Verdict, text)
        }
    }
}

fn reason(why: &Why) -> ChangeDetails {
    let (reason, _) = module::word(why);
    ChangeDetails {
        reason: Some(reason),
        ..ChangeDetails::new(ChangeKind::Reason, particulars(why))
    }
}

/// What a cluster waits for, or its message.
fn particulars(why: &Why) -> String {
    match why {
        Why::WaitingTurn { holders, limit } => format!("{} (at most {limit} at a time)", names(holders)),
        Why::WaitingBudget { holders, limit } => {
            format!("{} (at most {limit} changing or not available)", names(holders))
        }
        Why::WaitingBatch { holders, size } => format!("{} (a batch of {size})", names(holders)),
        Why::WaitingDomain { holders } => names(holders),
        Why::WaitingStage {
            stage,
            until: Some(until),
            ..
        } => format!("stage {stage}, which soaks until {}", second(*until)),
        Why::WaitingStage { stage, units, .. } => format!("stage {stage}, {}", names(units)),
        Why::WaitingApproval { stage } => format!("stage {stage}"),
        Why::WaitingGate {
            stage, gate, passes, ..
        } => format!(
            "gate {} of stage {stage}, which passed {} of {} times",
            gate.gate + 1,
            passes.0,
            passes.1
        ),
        Why::WithdrawalHeld { acknowledge, units } => format!("{units} clusters, {acknowledge}"),
        Why::Soaking { until, .. } => format!("until {}", second(*until)),
        Why::Updating {
            picked_up: true,
            message,
            ..
        } => ["picked up".to_owned()]
            .into_iter()
            .chain(message.as_deref().map(str::to_owned))
            .collect::<Vec<_>>()
            .join(", "),
        Why::Failed { message, .. } | Why::WriteFailed { message, .. } => message.to_string(),
        Why::KnownBad { evidence, .. } | Why::Halted { evidence, .. } => witness(evidence),
        Why::Updating { message, .. }
        | Why::Withdrawing { message, .. }
        | Why::AlreadyUnready { message, .. }
        | Why::Pinned { message }
        | Why::Reverting { message, .. } => message.as_deref().unwrap_or_default().to_owned(),
        Why::Ineligible { .. }
        | Why::Overdue { .. }
        | Why::NotPickedUp { .. }
        | Why::Relapsed { .. }
        | Why::Aborted { .. }
        | Why::Paused
        | Why::NotYet { .. }
        | Why::Closed { .. }
        | Why::Unresolved
        | Why::WaitingRead
        | Why::UpToDate
        | Why::Excluded => String::new(),
    }
}

fn witness(evidence: &Evidence) -> String {
    format!("{}: {}", evidence.unit, evidence.message)
}

pub(crate) fn names(units: &[UnitId]) -> String {
    let names: Vec<&str> = units.iter().map(UnitId::as_str).collect();
    module::few(&names)
}

/// The short form that messages and controls use.
fn short_hash(revision: Revision) -> String {
    revision.to_string().chars().take(8).collect()
}
