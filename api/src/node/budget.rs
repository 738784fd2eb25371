//! `NodeBudget`: how many nodes of a cluster may be changing at once, over all NodeModules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{amount::Amount, kind::kind, schema};

/// The name of the one NodeBudget of a cluster.
pub const NAME: &str = "nodes";
/// How many claims there may be.
pub const MAX_CLAIMS: usize = 1_024;

kind! {
    /// How many nodes of this cluster may be changing or not ready at once, over all NodeModules, and which are being changed. There is one, named nodes.
    NodeBudget, "nodebudgets", "nbud", crate::definition::columns::node_budget, NodeBudgetSpec, NodeBudgetStatus, cluster
}

/// How many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeBudgetSpec {
    /// Of nodes with the label node-role.kubernetes.io/control-plane: a count, or a percentage of them (rounded down, at least 1 when above 0).
    pub control_plane: Amount,
    /// Of all others. Absent: no bound beside those of the NodeModules.
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
    /// Written before a node is assigned a change, removed once the change is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_CLAIMS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["module", "node"]))]
    pub claims: Vec<Claim>,
}

/// One node that a NodeModule is changing, or is about to change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The NodeModule's uid.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub module: String,
    /// The node's name.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub node: String,
    /// The Node's uid: a node that was made again is another one.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub uid: String,
    /// The token above which the change has its token.
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: u64,
}
