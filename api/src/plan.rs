//! `PlanRun`: the run of a plan in a cluster, and how far it is. The words are KUDO's.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{digest, duration::Duration, failure::FailureClass, kind::kind, name_syntax::dns_label, schema};

kind! {
    /// The runs of a module's plan in this cluster. Has the name of the Kustomization whose folder it is about, and goes with it. Written by muster's agent.
    PlanRun, "planruns", "prun", crate::definition::columns::plan_run, PlanRunSpec, PlanRunStatus
}

/// By which plan file the Kustomization of the same name is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRunSpec {
    /// The file with the plan, relative to the path of the Kustomization.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub file: String,
    /// How long Jobs of earlier runs are kept. Unset: until the next run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Duration>,
    /// The longest time that one run may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// A greater number than the last run had starts a run though the content is the same.
    #[serde(default, skip_serializing_if = "is_none_or_zero")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub attempt: Option<u64>,
    /// What is done to a run by hand. It is taken once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<PlanControl>,
}

/// What is done by hand to the runs of a plan, once: `muster plan-run`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanControl {
    /// Tells it from all others: the status repeats it when it was taken or refused.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub id: String,
    /// What is done.
    pub action: PlanAction,
    /// The plan that is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub plan: Option<String>,
    /// The uid of the run that it is for: one that comes late changes no other run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub run: Option<String>,
    /// The step, as `phase/step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 127))]
    pub step: Option<String>,
    /// Who wanted it, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub reason: Option<String>,
}

/// What can be done to a run by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PlanAction {
    /// A plan that no version runs by itself is run once.
    Start,
    /// The run ends as failed.
    Abort,
    /// A step that failed begins anew, and the run goes on.
    Retry,
    /// A step counts as complete, without evidence.
    Skip,
}

impl PlanAction {
    /// The word in commands and annotations.
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
    /// Reads what annotation `fleet.muster.dev/plan-run` says of one cluster, after `CLUSTER@`: `start/PLAN`, `abort/RUN`, `retry/RUN/PHASE/STEP`,
    /// `skip/RUN/PHASE/STEP`. `None`: it has another form. `said` tells the control from others of the same words.
    pub fn parse(text: &str, said: &str, reason: Option<String>) -> Option<Self> {
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
            id: digest::short(&[text, said]),
            action,
            plan: plan.map(str::to_owned),
            run: run.map(str::to_owned),
            step,
            reason,
        })
    }
}

/// A control that was taken, or refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlTaken {
    /// Its id.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub id: String,
    /// Why it changed nothing; none if it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PLAN_LINE))]
    pub refused: Option<String>,
}

/// The run of a sync's plan, as a row's state reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRunReport {
    /// Its uid.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// The control that was taken or refused last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlTaken>,
}

/// What the condition `Plan` of a Kustomization says; [`fmt::Display`] and [`PlanReport::parse`] are inverses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanReport {
    /// Where the run stands: `update 2/3 schema/migrate InProgress`.
    pub line: String,
    /// The run's uid.
    pub run: String,
    /// The control that was taken or refused last.
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
    /// Reads a message. One of another form is the line alone: an older agent wrote it.
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
    /// What the Kustomization carries in annotation `fleet.muster.dev/plan` while this is what it is carried out by.
    pub fn digest(&self) -> String {
        let Self {
            file,
            keep,
            deadline,
            attempt,
            control,
        } = self;
        let millis = |duration: &Option<Duration>| duration.map(Duration::as_millis);
        digest::short(&[&digest::canonical(&json!({
            "file": file,
            "keep": millis(keep),
            "deadline": millis(deadline),
            "attempt": attempt.unwrap_or_default(),
            "control": control.as_ref().map(|control| &control.id),
        }))])
    }
}

/// The run of the plan that is under way or was the last one, and those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRunStatus {
    /// The run that is under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// The contents that completed here, newest first: going back to one of them is a rollback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_HISTORY), extend("x-kubernetes-list-type" = "atomic"))]
    pub completed: Vec<Completed>,
    /// The runs before, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_HISTORY), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<PastRun>,
    /// The run of a plan that was started by hand: it is under way, or was the last one. It has no say in whether the version is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<Run>,
    /// The control that was taken or refused last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlTaken>,
}

/// How many contents and how many runs are remembered.
pub const MAX_HISTORY: usize = 10;

/// A run, and what it is a run of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The hash of the plan and of all documents that the folder makes here: equal documents start no run.
    #[schemars(length(max = 71))]
    pub documents_digest: String,
    /// The hash of the plans by which it goes on: other ones give a run that failed another chance.
    #[schemars(length(max = 71))]
    pub plans_digest: String,
    /// The revision of the source that the documents are of.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// The `attempt` of the spec that the run is of.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub attempt: u64,
    /// How far it is.
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
    /// The revision of the source.
    #[schemars(length(max = 256))]
    pub revision: String,
}

/// A run that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastRun {
    /// The plan's name.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub plan: String,
    /// The run's identity.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// How it ended; or where it stood when another content took its turn.
    pub status: RunState,
    /// The revision that it was of.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// The step that it ended with, unless it completed, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// The Jobs that it made, as their ids in inventories: kept for `keep`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ITEMS), inner(length(max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
    pub jobs: Vec<String>,
}

/// How many phases a plan may have, and how many steps a phase.
pub const MAX_ITEMS: usize = 64;

/// Where a plan, a phase or a step stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum RunState {
    /// No run of it began.
    #[default]
    NeverRun,
    /// A run began and has not reached it.
    Pending,
    /// Under way.
    InProgress,
    /// The last try failed; it is tried again.
    Error,
    /// Done, with evidence.
    Complete,
    /// Failed for good: it is not tried again by itself.
    FatalError,
}

impl RunState {
    /// The word that stands in status.
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

    /// Whether it changes no more by itself.
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
    /// The plan's name.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub plan: String,
    /// The run's identity: stored before its first write, in the name of each Job that it makes.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// Where the run stands.
    pub status: RunState,
    /// Since when it runs: `deadline` counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The phases, in the plan's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ITEMS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub phases: Vec<PhaseProgress>,
}

/// One phase of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseProgress {
    /// The phase's name.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub name: String,
    /// Where the phase stands: made of its steps.
    pub status: RunState,
    /// The steps, in the plan's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ITEMS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub steps: Vec<StepProgress>,
}

/// One step of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// The step's name.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub name: String,
    /// Where the step stands.
    pub status: RunState,
    /// What it waits for, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
    /// Since when it is under way: `timeout` counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Which try this is, from 1; in the names of the step's Jobs. 0: not yet begun.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// How many tries were lost: their Jobs were gone before they were seen to end. They count as no failures.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u32,
    /// Whose failure it is, for a step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// The hash of what the step is: a step that has changed runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// It was skipped by hand: complete without evidence.
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
        // The same words at another time are another control.
        let id = |said| PlanControl::parse("start/backup", said, None).unwrap().id;
        assert_ne!(id("2026-01-02T03:04:05Z"), id("2026-01-02T03:04:06Z"));
    }
}
