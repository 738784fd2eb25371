//! The `rollout` settings of a NodeModule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    amount::Amount,
    duration::Duration,
    rollout::{
        Approval, Batch, Deadlines, OnFailure, OnJoin, OnUnreachable, Rollout, Stage, Unmatched,
        WithdrawLimits,
    },
    schema,
};

/// How a NodeModule's revision is rolled out to its nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeRollout {
    /// How many nodes may be changing or not ready at once: a count, or a percentage of the selected nodes (rounded
    /// down, at least 1 when above 0). With 0 no change starts. Changing a node that is already not ready does not use
    /// up more of this limit.
    pub max_unready_nodes: Amount,
    /// How long, in seconds, a node's agent must have reported the change as confirmed before the node counts as
    /// confirmed.
    #[schemars(range(max = 86_400))]
    pub min_ready_seconds: u32,
    /// Changes nodes in batches of growing size instead of one at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// Changes failure domains, such as racks or zones, one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<NodeDomains>,
    /// Stages that are rolled out in order; a node belongs to the first stage whose selector matches it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<NodeStage>,
    /// How nodes that no stage selects are treated: Last (changed after all stages) or Exclude.
    pub unmatched: Unmatched,
    /// What happens when nodes fail.
    #[schemars(extend("default" = {}))]
    pub on_failure: OnFailure,
    /// Deadlines for the change of a node.
    #[schemars(extend("default" = {}))]
    pub deadlines: Deadlines,
    /// How a node that disappears during its change is treated: Wait (it keeps its slot, and the rollout does not end
    /// until the node is back, its Node is deleted, or it is released), Skip (its slot is released after
    /// deadlines.absence) or Fail (it counts as failed).
    #[serde(default = "wait")]
    #[schemars(extend("default" = "Wait"))]
    pub on_unreachable: OnUnreachable,
    /// What a node that joins during a rollout gets first: LastGood or Target.
    pub on_join: OnJoin,
    /// Limits for withdrawing from nodes that are no longer selected.
    #[schemars(extend("default" = {}))]
    pub withdraw: WithdrawLimits,
    /// Pauses the rollout: no new changes start, those in progress may finish.
    pub paused: bool,
    /// Number of NodeRevisions to keep.
    #[schemars(range(min = 1, max = 100))]
    pub history_limit: u32,
}

impl Default for NodeRollout {
    fn default() -> Self {
        Self {
            max_unready_nodes: Amount::Count(1),
            min_ready_seconds: 0,
            batch: None,
            domains: None,
            stages: Vec::new(),
            unmatched: Unmatched::Last,
            on_failure: OnFailure::default(),
            deadlines: Deadlines::default(),
            on_unreachable: wait(),
            on_join: OnJoin::LastGood,
            withdraw: WithdrawLimits::default(),
            paused: false,
            history_limit: 10,
        }
    }
}

/// Nodes that share the value of a label, such as a rack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDomains {
    /// The label key. Nodes without the label form a domain of their own.
    #[schemars(length(min = 1, max = schema::MAX_LABEL_KEY))]
    pub key: String,
    /// Order in which domains are changed: None (no particular order), Name (by name), or Listed (as in values; other
    /// domains follow by name).
    #[serde(default)]
    pub order: DomainOrder,
    /// The order of domains for Listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "values", extend("x-kubernetes-list-type" = "set"))]
    pub values: Vec<String>,
    /// How many domains may be changing at once.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    pub at_once: u32,
    /// How many nodes of a domain may be changing at once; absent: only maxUnreadyNodes applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub limit: Option<u32>,
}

/// In which order domains are changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DomainOrder {
    /// No particular order: the order of their nodes.
    #[default]
    None,
    /// Sorted by the values of the label.
    Name,
    /// In the order of the list.
    Listed,
}

/// Nodes that are changed together, before the next stage starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStage {
    /// Name of the stage, used in statuses and approvals.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
    /// Selects the nodes of the stage by their labels.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// A stricter limit within this stage; it never raises the limit of the NodeModule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unready_nodes: Option<Amount>,
    /// How long the stage is observed after its last node is confirmed.
    #[serde(default)]
    pub soak: Duration,
    /// Whether manual approval is required before the next stage.
    #[serde(default)]
    pub approval: Approval,
}

fn values(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 1_000,
        "items": { "type": "string", "maxLength": schema::MAX_LABEL },
    })
}

const fn wait() -> OnUnreachable {
    OnUnreachable::Wait
}

const fn one() -> u32 {
    1
}

/// The settings that nodes and clusters share, translated to the settings of clusters.
impl From<&NodeRollout> for Rollout {
    fn from(nodes: &NodeRollout) -> Self {
        let NodeRollout {
            max_unready_nodes,
            min_ready_seconds,
            batch,
            domains: _,
            stages,
            unmatched,
            on_failure,
            deadlines,
            on_unreachable,
            on_join,
            withdraw,
            paused,
            history_limit,
        } = nodes.clone();
        Self {
            max_unready_clusters: max_unready_nodes,
            min_ready_seconds,
            batch,
            stages: stages.into_iter().map(Into::into).collect(),
            unmatched,
            on_failure,
            deadlines,
            on_unreachable,
            on_join,
            withdraw,
            paused,
            history_limit,
            ..Self::default()
        }
    }
}

impl From<NodeStage> for Stage {
    fn from(of: NodeStage) -> Self {
        let NodeStage {
            name,
            selector,
            max_unready_nodes,
            soak,
            approval,
        } = of;
        Self {
            name,
            selector,
            max_unready_clusters: max_unready_nodes,
            soak,
            approval,
            gates: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_roll_as_clusters_do_but_for_what_is_theirs() {
        let nodes: NodeRollout = serde_json::from_value(json!({
            "maxUnreadyNodes": "34%", "minReadySeconds": 7, "paused": true, "historyLimit": 3,
            "stages": [{"name": "canary", "selector": {}, "maxUnreadyNodes": 2, "soak": "1m", "approval": "Required"}],
        }))
        .unwrap();
        let clusters: Rollout = serde_json::from_value(json!({
            "maxUnreadyClusters": "34%", "minReadySeconds": 7, "paused": true, "historyLimit": 3, "onUnreachable": "Wait",
            "stages": [{"name": "canary", "selector": {}, "maxUnreadyClusters": 2, "soak": "1m", "approval": "Required"}],
        }))
        .unwrap();
        assert_eq!(Rollout::from(&nodes), clusters);
    }
}
