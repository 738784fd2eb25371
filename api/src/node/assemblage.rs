//! `NodeAssemblage`: what one node gets from each NodeModule, and what its agent reports.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{content::MAX_PARTS, module::NodeOnDelete};
use crate::{failure::FailureClass, kind::kind, schema, unread};

/// Maximum number of NodeModules on one node.
pub const MAX_ROWS: usize = 64;
/// Maximum number of drifted paths that are reported for a node.
pub const MAX_DRIFT: usize = 20;

kind! {
    /// Lists what the node of this name gets, one row for each NodeModule, and what the node's agent reports. Written
    /// by muster; owned by the Node.
    NodeAssemblage, "nodeassemblages", "nasm", crate::definition::columns::node_assemblage, NodeAssemblageSpec, NodeAssemblageStatus, cluster
}

/// What one node gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAssemblageSpec {
    /// One row for each NodeModule; the order has no meaning.
    #[serde(default)]
    #[schemars(length(max = MAX_ROWS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub rows: Vec<NodeRow>,
}

/// What the node gets from one NodeModule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Name of the NodeModule.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub name: String,
    /// The uid of the NodeModule; together with the name and the revision it identifies the NodeRevision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: Option<String>,
    /// The hash of the content. Absent: a fence, or a withdrawal of content that was never assigned. In a withdrawal:
    /// the last assigned content, whose reloaders and checks are used for the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Indexes of the content's parts that select this node.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(schema_with = "parts")]
    pub parts: BTreeSet<u32>,
    /// Values of the variables, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "values")]
    pub values: BTreeMap<String, String>,
    /// The hash of what this node gets; reported back in status. The agent refuses to apply content with a different
    /// hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// Increases with each decision about the node and never decreases; reported back in status.
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: u64,
    /// Start time, in milliseconds, of the rollout that this assignment belongs to. The agent does not retry what
    /// failed on the node, except in another rollout, for example after muster rollout retry.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub attempt: u64,
    /// Set to withdraw the NodeModule: Orphan leaves its files in place, Restore restores what the node had before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdraw: Option<NodeOnDelete>,
}

/// What the agent of the node reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAssemblageStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready is true if every row is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The node's agent, as it reports itself.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "unread::readable_option"
    )]
    pub agent: Option<NodeAgent>,
    /// The state of each row.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "unread::readable"
    )]
    #[schemars(length(max = MAX_ROWS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub rows: Vec<NodeRowState>,
}

/// What an agent reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAgent {
    /// The agent's version.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub version: String,
    /// Names of the optional features that the agent supports.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(schema_with = "schema::features")]
    pub features: BTreeSet<String>,
    /// Set while the agent is held on the node: it writes nothing except a pending restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<LocalHold>,
}

/// A hold that was set on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalHold {
    /// When the hold expires.
    pub until: Time,
    /// Why the hold was set.
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub reason: String,
}

/// The state of one row, with the digest and token of the row that it describes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRowState {
    /// Name of the NodeModule.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub name: String,
    /// The digest of the row that this state describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// The token of the row that this state describes.
    #[serde(default)]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: u64,
    /// The state of the row.
    pub state: NodePhase,
    /// What a failure is attributed to: the revision, this node, or the infrastructure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// Whether the failure is permanent: retrying alone does not resolve it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Machine-readable reason for the state, in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: Option<String>,
    /// Human-readable details of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
    /// The digest of the last change that was confirmed on the node. After a restore it is the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub confirmed: Option<String>,
    /// Files that differ from what this revision wrote; the first 20, sorted by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "paths")]
    pub drift: Vec<String>,
}

/// The state of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodePhase {
    /// Files are written, services reloaded, and the checks passed.
    Confirmed,
    /// The change failed; the node's previous files are restored unless the reason says otherwise.
    Failed,
    /// In progress.
    #[default]
    Updating,
    /// The previous files are being restored.
    Withdrawing,
    /// The row is withdrawn.
    Withdrawn,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn parts(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": MAX_PARTS,
        "items": { "type": "integer", "minimum": 0, "maximum": MAX_PARTS },
        "x-kubernetes-list-type": "set",
    })
}

fn paths(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": MAX_DRIFT,
        "items": { "type": "string", "maxLength": super::content::MAX_PATH },
        "x-kubernetes-list-type": "atomic",
    })
}

/// Values by variable name; those of labels include the label key in the name.
fn values(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 2 * schema::MAX_VALUES,
        "additionalProperties": { "type": "string", "maxLength": schema::MAX_VALUE },
    })
}
