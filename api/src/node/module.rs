//! `NodeModule`: configuration for the nodes of a cluster, and how it is rolled out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{content::NodeContent, rollout::NodeRollout};
use crate::{
    control_status::{ControlStatus, Effect},
    evidence::Progress,
    kind::kind,
    module::RolloutStatus,
    schema,
};

kind! {
    /// Writes files to nodes of this cluster, reloads services and checks the nodes after a change, and rolls each
    /// change out to the nodes step by step.
    #[schemars(transform = schema::dns_label_name)]
    NodeModule, "nodemodules", "nmod", crate::definition::columns::node_module_columns, NodeModuleSpec, NodeModuleStatus, cluster
}

/// What nodes get, which nodes, and how it is rolled out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "duration(self.settle) + duration(self.holdFor) < duration(self.confirmWithin)",
        "message": "settle and holdFor together must be shorter than confirmWithin, or no change can be confirmed",
        "fieldPath": ".confirmWithin",
    },
    {
        "rule": "duration(self.confirmWithin) + duration(self.confirmWithin) < duration(self.rollout.deadlines.progress)",
        "message": "rollout.deadlines.progress must be more than twice as long as confirmWithin: a node restores what it had, and reports, within that time",
        "fieldPath": ".rollout.deadlines.progress",
    },
    { "rule": "duration(self.confirmWithin) >= duration('1s') && duration(self.confirmWithin) <= duration('1h')", "message": "confirmWithin must be from 1s to 1h", "fieldPath": ".confirmWithin" },
]))]
pub struct NodeModuleSpec {
    /// Selects Nodes by their labels. Absent: none. Empty ({}): all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// What the selected nodes get.
    #[serde(flatten)]
    pub content: NodeContent,
    /// What happens when something else changes a file: Report.
    #[serde(default)]
    pub drift: Drift,
    /// What happens to the files when the NodeModule is deleted, or a node is no longer selected: Orphan (they stay) or
    /// Restore (each node restores what it had before).
    #[serde(default)]
    pub on_delete: NodeOnDelete,
    /// How a revision is rolled out to the nodes.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub rollout: NodeRollout,
    /// Suspends this NodeModule. Nodes keep what they have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// What happens when something else changes a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Drift {
    /// The drift is reported; nothing is written.
    #[default]
    Report,
}

/// What happens to files that are no longer managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum NodeOnDelete {
    /// The files stay.
    #[default]
    Orphan,
    /// Each node restores what it had before.
    Restore,
}

/// Observed state of a NodeModule's rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeModuleStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready is always present; Reconciling, Stalled, Paused, Halted and SelectsAll only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Summary for the STATUS column of kubectl get: the reason of Ready, plus Paused, Held and Pinned where they
    /// apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub state: Option<String>,
    /// Number of selected nodes that are confirmed at the target revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The target revision: the hash of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Number of nodes by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<NodeSummary>,
    /// The reasons for the states of the nodes: each reason with all its nodes, in order of precedence. A node that is
    /// listed under no reason is not selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"]))]
    pub reasons: Vec<NodeReasonGroup>,
    /// The nodes that need attention, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub attention: Vec<NodeAttention>,
    /// The annotations paused, hold and pin, and their effect; those without effect are listed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub controls: Vec<NodeControlStatus>,
    /// Persisted state of the rollout engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
}

/// Number of nodes of a NodeModule by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    /// Number of selected nodes.
    pub total: u32,
    /// Nodes that are confirmed at the target revision.
    pub updated: u32,
    /// Nodes that are confirmed at any revision and not changing.
    pub ready: u32,
    /// Nodes that are changing.
    pub updating: u32,
    /// Nodes that have not started yet.
    pub waiting: u32,
    /// Nodes where a revision failed.
    pub failed: u32,
    /// Nodes that cannot be changed now: not ready, without an agent, held on the node.
    pub skipped: u32,
    /// Nodes that are held or pinned.
    pub held: u32,
    /// Nodes from which the NodeModule is being withdrawn.
    pub withdrawing: u32,
    /// Updated nodes out of all selected ones, such as 3/6.
    #[schemars(length(max = 32))]
    pub nodes: String,
}

/// The nodes that share one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReasonGroup {
    /// Machine-readable reason, in CamelCase.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// Number of nodes with this reason.
    pub count: u32,
    /// Names of the nodes, separated by commas; consecutive numbers are folded into ranges, such as
    /// worker-{001..040},gpu-7.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS_SIZE))]
    pub nodes: String,
    /// Whether the names are omitted for lack of space: all reasons together are limited to 32 KiB, which the smallest
    /// groups get first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Human-readable details, if they are the same for all of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
}

/// A control annotation and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeControlStatus {
    /// Name of the annotation, such as fleet.muster.dev/hold.
    #[schemars(length(max = schema::MAX_LABEL_KEY))]
    pub control: String,
    /// The node that the annotation applies to; absent: the whole NodeModule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub node: Option<String>,
    /// Effect of the annotation: Applied, WithoutEffect (the message says why) or Over (it has expired).
    pub effect: Effect,
    /// Who set the annotation, why, when, and until when; or what is wrong with it.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}

impl From<ControlStatus> for NodeControlStatus {
    fn from(of: ControlStatus) -> Self {
        Self {
            control: of.control,
            node: of.cluster,
            effect: of.effect,
            message: of.message,
        }
    }
}

impl From<NodeControlStatus> for ControlStatus {
    fn from(of: NodeControlStatus) -> Self {
        Self {
            control: of.control,
            cluster: of.node,
            effect: of.effect,
            message: of.message,
        }
    }
}

/// A node that needs attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAttention {
    /// Name of the node.
    #[schemars(length(max = schema::MAX_NAME))]
    pub node: String,
    /// Machine-readable reason, in CamelCase.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// When the node entered this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Human-readable details.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}
