//! How far a run of a plan is: the words are KUDO's, the shapes stand in the status of what runs a plan.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{assemblage::FailureClass, schema};

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
    #[schemars(length(max = MAX_ITEMS))]
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
    #[schemars(length(max = MAX_ITEMS))]
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
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}
