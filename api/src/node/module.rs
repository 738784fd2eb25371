//! `NodeModule`: configuration of the nodes of a cluster, and how it rolls over them.

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
    /// Files of the nodes of this cluster, what is reloaded and must hold after a change, and how a change rolls over the nodes.
    #[schemars(transform = schema::dns_label_name)]
    NodeModule, "nodemodules", "nmod", crate::definition::columns::node_module, NodeModuleSpec, NodeModuleStatus, cluster
}

/// What nodes get, which nodes, and how it rolls over them.
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
    /// Which nodes: a selector over the labels of Nodes. Absent: none. Empty ({}): all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// What they get.
    #[serde(flatten)]
    pub content: NodeContent,
    /// What becomes of a file that something else changed: Report.
    #[serde(default)]
    pub drift: Drift,
    /// What becomes of the files when the NodeModule is deleted, or a node is not selected any more: Orphan (they stay) or Restore (each node gets back what it had before).
    #[serde(default)]
    pub on_delete: NodeOnDelete,
    /// How a revision rolls over the nodes.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub rollout: NodeRollout,
    /// Do nothing at all with this NodeModule. Nodes keep what they have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// What becomes of a file that something else changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Drift {
    /// It is reported; nothing is written.
    #[default]
    Report,
}

/// What becomes of files that are not wanted any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum NodeOnDelete {
    /// They stay.
    #[default]
    Orphan,
    /// Each node gets back what it had before.
    Restore,
}

/// What was observed of a NodeModule's rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeModuleStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready always; Reconciling, Stalled, Paused, Halted and SelectsAll only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How the NodeModule stands, for the column STATUS of kubectl get: the reason of Ready, and Paused, Held and Pinned where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub state: Option<String>,
    /// How many nodes are confirmed at the target, of all selected ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The targeted revision: the hash of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The nodes in numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<NodeSummary>,
    /// Why each node is where it is: every reason with all of its nodes, in the order of precedence. A node in none is not selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"]))]
    pub reasons: Vec<NodeReasonGroup>,
    /// The nodes that need attention, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub attention: Vec<NodeAttention>,
    /// The annotations paused, hold and pin, and what came of each: first what has no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub controls: Vec<NodeControlStatus>,
    /// What the rollout engine remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
}

/// The nodes of a NodeModule in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    /// Selected nodes.
    pub total: u32,
    /// Nodes that are confirmed at the target.
    pub updated: u32,
    /// Nodes that are confirmed at whatever revision they have, and are not changing.
    pub ready: u32,
    /// Nodes that are changing.
    pub updating: u32,
    /// Nodes whose turn has not come.
    pub waiting: u32,
    /// Nodes on which a revision failed.
    pub failed: u32,
    /// Nodes that cannot be changed now: not ready, without an agent, held on the node.
    pub skipped: u32,
    /// Nodes that are held or pinned.
    pub held: u32,
    /// Nodes that are being withdrawn from.
    pub withdrawing: u32,
    /// Updated nodes of all, such as 3/6.
    #[schemars(length(max = 32))]
    pub nodes: String,
}

/// The nodes that are where they are for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReasonGroup {
    /// Why, as one word.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// How many nodes there are.
    pub count: u32,
    /// Their names, separated by commas; numbers that follow each other are a range, such as worker-{001..040},gpu-7.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS_SIZE))]
    pub nodes: String,
    /// There is no room for the names: all reasons together have 32 KiB, and the smallest groups come first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Why, for people, where it is the same for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
}

/// An annotation of a person, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeControlStatus {
    /// The annotation, such as fleet.muster.dev/hold.
    #[schemars(length(max = schema::MAX_LABEL_KEY))]
    pub control: String,
    /// The node that it is about; absent: the NodeModule as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub node: Option<String>,
    /// Applied, WithoutEffect (the message says why) or Over (its time has ended).
    pub effect: Effect,
    /// Who, why, since when and until when; or what is wrong with it.
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
    /// The node's name.
    #[schemars(length(max = schema::MAX_NAME))]
    pub node: String,
    /// Why, as one word.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Why, for people.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}
