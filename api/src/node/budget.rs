//! `NodeBudget`: how many nodes of a cluster may be changing at once, across all NodeModules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{amount::Amount, kind::kind, schema};

/// The name of the only NodeBudget in a cluster.
pub const NAME: &str = "nodes";
/// Maximum number of claims.
pub const MAX_CLAIMS: usize = 1_024;

kind! {
    /// Limits how many nodes of this cluster may be changing or not ready at once, across all NodeModules, and records
    /// which are being changed. A cluster has one NodeBudget, named nodes.
    NodeBudget, "nodebudgets", "nbud", crate::definition::columns::node_budget, NodeBudgetSpec, NodeBudgetStatus, cluster
}

/// How many nodes may be changing or not ready at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeBudgetSpec {
    /// Limit for nodes with the label node-role.kubernetes.io/control-plane: a count, or a percentage of them (rounded
    /// down, at least 1 when above 0).
    pub control_plane: Amount,
    /// Limit for all other nodes. Absent: only the limits of the NodeModules apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<Amount>,
}

impl Default for NodeBudgetSpec {
    fn default() -> Self {
        Self {
            control_plane: Amount::Count(1),
            workers: None,
        }
    }
}

/// The nodes that are being changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeBudgetStatus {
    /// Claims are written before a change is assigned to a node, and removed when the change is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_CLAIMS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["module", "node"]))]
    pub claims: Vec<Claim>,
}

/// A node that a NodeModule is changing, or is about to change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The uid of the NodeModule.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub module: String,
    /// Name of the node.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub node: String,
    /// The uid of the Node, to distinguish it from a re-created Node of the same name.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub uid: String,
    /// The last token before the change; the change gets a greater one.
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: u64,
}
