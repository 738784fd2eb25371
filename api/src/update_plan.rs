//! `UpdatePlan`: a change of machines in place, decided before the first of them is touched, and how far each machine is.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{duration::Duration, kind::kind, schema};

/// Updaters of one plan.
pub const MAX_UPDATERS: usize = 16;
/// Steps of one plan: its updaters, and a cordon, a drain and an uncordon of the Node.
pub const MAX_STEPS: usize = MAX_UPDATERS + 3;
/// `sha256:` and 64 hexadecimal digits.
const MAX_DIGEST: usize = 71;
/// Bytes of the objects of one side, in JSON: both sides and a status of all Machines stay below etcd's limit of 1.5 MiB.
pub const MAX_OBJECTS: usize = 524_288;
/// Machines that a status lists: those of one MachineSet. Where there are more, there is no plan.
pub const MAX_MACHINES: usize = 500;

kind! {
    /// How machines get in place what Cluster API desires of them: the updaters in their order, and how far each machine is. Made by `muster machines` before it answers that a change can be made in place; it never changes.
    UpdatePlan, "updateplans", "uplan", crate::definition::columns::update_plan, UpdatePlanSpec, UpdatePlanStatus
}

/// The change, as it was asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePlanSpec {
    /// Whether one Machine was asked about, or all of a MachineSet.
    pub level: UpdateLevel,
    /// The Machine, or the old MachineSet.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub source: String,
    /// The new MachineSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub target: Option<String>,
    /// The digest of what the machines have.
    #[schemars(length(max = MAX_DIGEST))]
    pub from: String,
    /// The digest of what is desired: what the updaters acknowledge.
    #[schemars(length(max = MAX_DIGEST))]
    pub to: String,
    /// The updaters, in the order in which they are called, and what is done to the Node before and after.
    #[schemars(length(max = MAX_STEPS), extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<UpdateStep>,
    /// What the machines have: the objects of the request, in JSON.
    #[schemars(length(max = MAX_OBJECTS))]
    pub current: String,
    /// What is desired, likewise.
    #[schemars(length(max = MAX_OBJECTS))]
    pub desired: String,
}

/// What is updated by a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateLevel {
    /// One Machine of a control plane.
    Machine,
    /// The Machines of a MachineSet.
    MachineSet,
}

/// A step of a plan, as it was configured when the plan was made: an updater is called, or something is done to the Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.updater) != has(self.node)", "message": "set exactly one of updater and node" },
]))]
pub struct UpdateStep {
    /// The updater's name in the configuration of `muster machines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub updater: Option<String>,
    /// When the end of the updater is believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledgement: Option<UpdateAcknowledgement>,
    /// What is done to the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<UpdateNodeAction>,
    /// How long it may take with one machine, from the first attempt on.
    pub deadline: Duration,
}

/// What is done to the Node of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateNodeAction {
    /// No pod is scheduled to it any more.
    Cordon,
    /// The same, and its pods are evicted.
    Drain,
    /// Pods are scheduled to it again, if it was cordoned for an update.
    Uncordon,
}

impl fmt::Display for UpdateNodeAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cordon => "cordon of the Node",
            Self::Drain => "drain of the Node",
            Self::Uncordon => "uncordon of the Node",
        })
    }
}

/// When the end of an updater is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateAcknowledgement {
    /// Its message names the digest that it was sent.
    #[default]
    Digest,
    /// It says that it is done.
    Trust,
}

/// How far the machines are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePlanStatus {
    /// How far they are in numbers, such as `2/3`: updated, of all Machines of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub updated: Option<String>,
    /// One entry for each Machine of the plan, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_MACHINES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uid"]))]
    pub machines: Vec<MachineUpdate>,
    /// The annotation `fleet.muster.dev/retry` that was carried out last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub last_handled_retry: Option<String>,
    /// The annotation `fleet.muster.dev/abort` that was carried out last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub last_handled_abort: Option<String>,
}

/// How far one machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineUpdate {
    /// The Machine.
    #[schemars(length(max = schema::MAX_NAME))]
    pub name: String,
    /// Its uid: another of its name is not meant.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub uid: String,
    /// What has become of it.
    pub state: MachineUpdateState,
    /// The number of the step that is under way, from 0.
    #[serde(default)]
    #[schemars(range(max = MAX_STEPS))]
    pub step: u32,
    /// When that step began: its first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The last words of its updater.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
}

impl MachineUpdate {
    /// Its update has begun, and is not at its end: a failure waits for a retry.
    pub const fn is_open(&self) -> bool {
        match self.state {
            MachineUpdateState::Updating | MachineUpdateState::Failed => true,
            // As older versions had it between two steps.
            MachineUpdateState::Pending => self.step > 0,
            MachineUpdateState::Updated => false,
        }
    }
}

/// What has become of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineUpdateState {
    /// Cluster API has not asked for its update yet.
    #[default]
    Pending,
    /// Its update has begun, and has not ended.
    Updating,
    /// Each updater has acknowledged the digest of the plan.
    Updated,
    /// A step did not end within its deadline, or was aborted. Only a retry goes on.
    Failed,
}
