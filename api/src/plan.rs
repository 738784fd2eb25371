//! `PlanRun`: the run of a plan in a cluster, and its progress. The terms are those of KUDO.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{digest, duration::Duration, failure::FailureClass, kind::kind, name_syntax::dns_label, schema};

kind! {
    /// Records the runs of a module's plan in this cluster. It has the same name as the Kustomization whose directory
    /// is applied by the plan, and is deleted with it. Written by muster's agent.
    PlanRun, "planruns", "prun", crate::definition::columns::plan_run, PlanRunSpec, PlanRunStatus
}

/// The plan file by which the Kustomization of the same name is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRunSpec {
    /// The file with the plan, relative to the path of the Kustomization.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub file: String,
    /// How long Jobs of earlier runs are kept. Unset: until the next run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Duration>,
    /// Maximum duration of one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// A value greater than that of the last run starts a new run even if the content is unchanged.
    #[serde(default, skip_serializing_if = "is_none_or_zero")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub attempt: Option<u64>,
    /// A manual action on a run. It is performed once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<PlanControl>,
}

/// A one-time manual action on the runs of a plan: `muster plan-run`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanControl {
    /// Unique identifier of the action; status reports it when the action was performed or rejected.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub id: String,
    /// The action to perform.
    pub action: PlanAction,
    /// Name of the plan to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub plan: Option<String>,
    /// The uid of the run that the action is for, so that a late action does not affect another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub run: Option<String>,
    /// The step, as `phase/step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 127))]
    pub step: Option<String>,
    /// Who requested the action, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub reason: Option<String>,
}

/// A manual action on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PlanAction {
    /// Runs a plan once that no version runs automatically.
    Start,
    /// Ends the run as failed.
    Abort,
    /// Restarts a failed step, and the run continues.
    Retry,
    /// Marks a step as complete, without evidence.
    Skip,
}

impl PlanAction {
    /// The name used in commands and annotations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Abort => "abort",
            Self::Retry => "retry",
            Self::Skip => "skip",
        }
    }
}

impl PlanControl {
    /// Parses what annotation `fleet.muster.dev/plan-run` requests for one cluster, after `CLUSTER@`: `start/PLAN`,
    /// `abort/RUN`, `retry/RUN/PHASE/STEP`, `skip/RUN/PHASE/STEP`. `None`: it has another form. `requested_at`
    /// distinguishes the control from others with the same text.
    pub fn parse(text: &str, requested_at: &str, reason: Option<String>) -> Option<Self> {
        let mut parts = text.split('/');
        let word = parts.next()?;
        let all = [
            PlanAction::Start,
            PlanAction::Abort,
            PlanAction::Retry,
            PlanAction::Skip,
        ];
        let action = all.into_iter().find(|action| action.as_str() == word)?;
        let rest: Vec<&str> = parts.collect();
        if rest.iter().any(|part| dns_label(part).is_err()) {
            return None;
        }
        let (plan, run, step) = match (action, rest.as_slice()) {
            (PlanAction::Start, [plan]) => (Some(*plan), None, None),
            (PlanAction::Abort, [run]) => (None, Some(*run), None),
            (PlanAction::Retry | PlanAction::Skip, [run, phase, step]) => {
                (None, Some(*run), Some(format!("{phase}/{step}")))
            }
            _ => return None,
        };
        Some(Self {
            id: digest::short_hash(&[text, requested_at]),
            action,
            plan: plan.map(str::to_owned),
            run: run.map(str::to_owned),
            step,
            reason,
        })
    }
}

/// A manual action that was performed or rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlTaken {
    /// The id of the action.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub id: String,
    /// Why the action was rejected; absent if it was performed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PLAN_LINE))]
    pub refused: Option<String>,
}

/// The run of a sync's plan, as reported in the state of the row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRunReport {
    /// The uid of the run.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// The last manual action that was performed or rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlTaken>,
}

/// Content of the condition `Plan` of a Kustomization; [`fmt::Display`] and [`PlanReport::parse`] are inverses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanReport {
    /// State of the run: `update 2/3 schema/migrate InProgress`.
    pub line: String,
    /// The uid of the run.
    pub run: String,
    /// The last manual action that was performed or rejected.
    pub control: Option<ControlTaken>,
}

const RUN: &str = " (run ";
const CONTROL: &str = "); control ";
const TAKEN: &str = " taken";
const REFUSED: &str = " refused: ";

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, run, control } = self;
        write!(f, "{line}{RUN}{run}")?;
        match control {
            None => f.write_str(")"),
            Some(ControlTaken { id, refused: None }) => write!(f, "{CONTROL}{id}{TAKEN}"),
            Some(ControlTaken {
                id,
                refused: Some(why),
            }) => write!(f, "{CONTROL}{id}{REFUSED}{why}"),
        }
    }
}

impl PlanReport {
    /// Parses a message. A message in another form was written by an older agent, and consists of the line only.
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| Self {
            line: line.to_owned(),
            ..Self::default()
        };
        let Some((before, rest)) = text.split_once(RUN) else {
            return line(text);
        };
        if let Some(run) = rest.strip_suffix(')')
            && !rest.contains(CONTROL)
        {
            return Self {
                run: run.to_owned(),
                ..line(before)
            };
        }
        let Some((run, control)) = rest.split_once(CONTROL) else {
            return line(text);
        };
        let (id, refused) = match control.split_once(REFUSED) {
            Some((id, why)) => (id, Some(why.to_owned())),
            None => (control.strip_suffix(TAKEN).unwrap_or(control), None),
        };
        Self {
            run: run.to_owned(),
            control: Some(ControlTaken {
                id: id.to_owned(),
                refused,
            }),
            ..line(before)
        }
    }
}

impl PlanRunSpec {
    /// The value of annotation `fleet.muster.dev/plan` on a Kustomization that is applied according to this spec.
    pub fn digest(&self) -> String {
        let Self {
            file,
            keep,
            deadline,
            attempt,
            control,
        } = self;
        let millis = |duration: &Option<Duration>| duration.map(Duration::as_millis);
        digest::short_hash(&[&digest::canonical(&json!({
            "file": file,
            "keep": millis(keep),
            "deadline": millis(deadline),
            "attempt": attempt.unwrap_or_default(),
            "control": control.as_ref().map(|control| &control.id),
        }))])
    }
}

/// The current or last run of the plan, and earlier runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRunStatus {
    /// The current or last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// The contents that completed in this cluster, newest first: returning to one of them is a rollback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_HISTORY), extend("x-kubernetes-list-type" = "atomic"))]
    pub completed: Vec<Completed>,
    /// Earlier runs, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_HISTORY), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<PastRun>,
    /// The current or last run that was started manually. It does not affect whether the version is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<Run>,
    /// The last manual action that was performed or rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlTaken>,
}

/// Maximum number of completed contents and of past runs that are kept.
pub const MAX_HISTORY: usize = 10;

/// A run and the content that it applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The hash of the plan and of all documents that the directory produces in this cluster: unchanged documents start
    /// no run.
    #[schemars(length(max = 71))]
    pub documents_digest: String,
    /// The hash of the plans that the run continues with: when they change, a failed run is tried again.
    #[schemars(length(max = 71))]
    pub plans_digest: String,
    /// The source revision that the documents were built from.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// The `attempt` of the spec for which the run was started.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub attempt: u64,
    /// Progress of the run.
    #[serde(flatten)]
    pub progress: RunProgress,
}

/// A content that completed in this cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Completed {
    /// The hash of the plan and of all documents.
    #[schemars(length(max = 71))]
    pub documents_digest: String,
    /// The source revision of the content.
    #[schemars(length(max = 256))]
    pub revision: String,
}

/// A run that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastRun {
    /// Name of the plan.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub plan: String,
    /// Unique identifier of the run.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// How the run ended, or its state when it was superseded by another content.
    pub status: RunState,
    /// The source revision of the run.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// The step at which the run ended and why, unless it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
    /// When the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// The Jobs that the run created, by their inventory ids; they are kept for `keep`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ITEMS), inner(length(max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
    pub jobs: Vec<String>,
}

/// Maximum number of phases in a plan, and of steps in a phase.
pub const MAX_ITEMS: usize = 64;

/// State of a plan, a phase or a step.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum RunState {
    /// No run has started.
    #[default]
    NeverRun,
    /// A run has started and not reached this item yet.
    Pending,
    /// In progress.
    InProgress,
    /// The last attempt failed; it is retried.
    Error,
    /// Completed, with evidence.
    Complete,
    /// Failed permanently: it is not retried automatically.
    FatalError,
}

impl RunState {
    /// The name used in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverRun => "NeverRun",
            Self::Pending => "Pending",
            Self::InProgress => "InProgress",
            Self::Error => "Error",
            Self::Complete => "Complete",
            Self::FatalError => "FatalError",
        }
    }

    /// Whether the state no longer changes automatically.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::FatalError)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One run of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunProgress {
    /// Name of the plan.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub plan: String,
    /// Unique identifier of the run: stored before the run's first write, and part of the name of each Job that it
    /// creates.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// State of the run.
    pub status: RunState,
    /// When the run started; `deadline` counts from this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The phases, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ITEMS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub phases: Vec<PhaseProgress>,
}

/// One phase of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseProgress {
    /// Name of the phase.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub name: String,
    /// State of the phase, derived from its steps.
    pub status: RunState,
    /// The steps, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ITEMS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub steps: Vec<StepProgress>,
}

/// One step of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// Name of the step.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub name: String,
    /// State of the step.
    pub status: RunState,
    /// What the step waits for, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
    /// When the step started; `timeout` counts from this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Number of the current attempt, starting at 1; part of the names of the step's Jobs. 0: not started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Number of lost attempts: their Jobs disappeared before they were observed to end. They do not count as failures.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u32,
    /// What the failure of the step is attributed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// The hash of the step's definition: a step that has changed runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// Whether the step was skipped manually: complete without evidence.
    #[serde(default, skip_serializing_if = "is_false")]
    pub assumed: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero_u64(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::ref_option, reason = "serde hands a reference")]
fn is_none_or_zero(number: &Option<u64>) -> bool {
    number.unwrap_or_default() == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_report_reads_back(line in "[a-z]{1,8} [0-9]/[0-9] [a-z/]{1,9}", run in "[0-9a-f]{8}", control in proptest::option::of(("[0-9a-f]{8}", proptest::option::of("[a-z ,:;()]{0,20}")))) {
            let control = control.map(|(id, refused)| ControlTaken { id, refused });
            let report = PlanReport { line, run, control };
            prop_assert_eq!(PlanReport::parse(&report.to_string()), report);
        }
    }

    #[test]
    fn words_of_another_form_are_the_line() {
        for text in [
            "",
            "deploy 1/2 a/b InProgress",
            "deploy (run 1a2b",
            "deploy (run 1a2b); control",
        ] {
            let line = PlanReport {
                line: text.to_owned(),
                ..PlanReport::default()
            };
            assert_eq!(PlanReport::parse(text), line);
        }
    }

    #[test]
    fn a_control_is_of_one_form() {
        let parse = |text: &str| {
            let control = PlanControl::parse(text, "", None)?;
            Some((control.action, control.plan.or(control.run)?, control.step))
        };
        let step = Some("schema/migrate".to_owned());
        for (text, expect) in [
            (
                "start/backup",
                Some((PlanAction::Start, "backup".to_owned(), None)),
            ),
            ("abort/1a2b", Some((PlanAction::Abort, "1a2b".to_owned(), None))),
            (
                "retry/1a2b/schema/migrate",
                Some((PlanAction::Retry, "1a2b".to_owned(), step.clone())),
            ),
            (
                "skip/1a2b/schema/migrate",
                Some((PlanAction::Skip, "1a2b".to_owned(), step)),
            ),
            ("", None),
            ("start", None),
            ("start/", None),
            ("start/a/b", None),
            ("Start/backup", None),
            ("abort/1a2b/schema/migrate", None),
            ("skip/1a2b/migrate", None),
            ("skip/1a2b/schema/migrate/", None),
            ("skip/1a2b/schema/Mig rate", None),
        ] {
            assert_eq!(parse(text), expect, "{text}");
        }
        // The same text at another time is another control.
        let id = |requested_at| PlanControl::parse("start/backup", requested_at, None).unwrap().id;
        assert_ne!(id("2026-01-02T03:04:05Z"), id("2026-01-02T03:04:06Z"));
    }
}
