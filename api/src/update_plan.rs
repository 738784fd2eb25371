//! `UpdatePlan`: an in-place update of machines, decided before the first machine is touched, and the progress of each
//! machine.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{duration::Duration, kind::kind, schema};

/// Maximum number of updaters in a plan.
pub const MAX_UPDATERS: usize = 16;
/// Maximum number of steps in a plan: its updaters, and a cordon, a drain and an uncordon of the Node.
pub const MAX_STEPS: usize = MAX_UPDATERS + 3;
/// `sha256:` and 64 hexadecimal digits.
const MAX_DIGEST: usize = 71;
/// Maximum size in bytes of the objects of one side as JSON: both sides and a status of all Machines stay below etcd's
/// limit of 1.5 MiB.
pub const MAX_OBJECTS: usize = 524_288;
/// Maximum number of Machines in a status: those of one MachineSet. For a larger MachineSet no plan is created.
pub const MAX_MACHINES: usize = 500;

kind! {
    /// How machines are updated in place to the state that Cluster API requests: the updaters in order, and the
    /// progress of each machine. Created by `muster machines` before it answers that a change can be made in place; the
    /// spec never changes.
    UpdatePlan, "updateplans", "uplan", crate::definition::columns::update_plan, UpdatePlanSpec, UpdatePlanStatus
}

/// The change, as Cluster API requested it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePlanSpec {
    /// Whether the request was about one Machine, or about all Machines of a MachineSet.
    pub level: UpdateLevel,
    /// Name of the Machine, or of the old MachineSet.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub source: String,
    /// Name of the new MachineSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub target: Option<String>,
    /// The digest of the machines' current state.
    #[schemars(length(max = MAX_DIGEST))]
    pub from: String,
    /// The digest of the desired state, which the updaters acknowledge.
    #[schemars(length(max = MAX_DIGEST))]
    pub to: String,
    /// The updaters in the order in which they are called, and the actions on the Node before and after.
    #[schemars(length(max = MAX_STEPS), extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<UpdateStep>,
    /// The machines' current state: the objects of the request, as JSON.
    #[schemars(length(max = MAX_OBJECTS))]
    pub current: String,
    /// The machines' desired state: the objects of the request, as JSON.
    #[schemars(length(max = MAX_OBJECTS))]
    pub desired: String,
}

/// What a plan updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateLevel {
    /// One Machine of a control plane.
    Machine,
    /// The Machines of a MachineSet.
    MachineSet,
}

/// A step of a plan, as configured when the plan was created: a call to an updater, or an action on the Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.updater) != has(self.node)", "message": "set exactly one of updater and node" },
]))]
pub struct UpdateStep {
    /// Name of the updater in the configuration of `muster machines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub updater: Option<String>,
    /// What is required to accept that the updater has finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledgement: Option<UpdateAcknowledgement>,
    /// The action on the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<UpdateNodeAction>,
    /// How long the step may take on one machine, counted from the first attempt.
    pub deadline: Duration,
}

/// An action on the Node of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateNodeAction {
    /// Cordons the Node: no new pods are scheduled to it.
    Cordon,
    /// Cordons the Node and evicts its pods.
    Drain,
    /// Uncordons the Node, if it was cordoned for an update.
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

/// What is required to accept that an updater has finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateAcknowledgement {
    /// The updater's message must contain the digest that it was sent.
    #[default]
    Digest,
    /// The updater only has to report that it is done.
    Trust,
}

/// The progress of the machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePlanStatus {
    /// Updated Machines out of all Machines of the plan, such as `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub updated: Option<String>,
    /// One entry for each Machine of the plan, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_MACHINES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uid"]))]
    pub machines: Vec<MachineUpdate>,
    /// The last value of the annotation `fleet.muster.dev/retry` that was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub last_handled_retry: Option<String>,
    /// The last value of the annotation `fleet.muster.dev/abort` that was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub last_handled_abort: Option<String>,
}

/// The progress of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineUpdate {
    /// Name of the Machine.
    #[schemars(length(max = schema::MAX_NAME))]
    pub name: String,
    /// The uid of the Machine, to distinguish it from another Machine of the same name.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub uid: String,
    /// State of the update.
    pub state: MachineUpdateState,
    /// Index of the current step, from 0.
    #[serde(default)]
    #[schemars(range(max = MAX_STEPS))]
    pub step: u32,
    /// When the current step started: its first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The last message of the updater.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
}

impl MachineUpdate {
    /// Whether the update has started and not finished; a failed update waits for a retry.
    pub const fn is_open(&self) -> bool {
        match self.state {
            MachineUpdateState::Updating | MachineUpdateState::Failed => true,
            // Older versions left the state like this between two steps.
            MachineUpdateState::Pending => self.step > 0,
            MachineUpdateState::Updated => false,
        }
    }
}

/// State of the update of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineUpdateState {
    /// Cluster API has not requested the update yet.
    #[default]
    Pending,
    /// The update has started, and has not ended.
    Updating,
    /// Each updater has acknowledged the digest of the plan.
    Updated,
    /// A step did not finish within its deadline, or was aborted. It continues only after a retry.
    Failed,
}
