//! `NodeAssemblage`: what one node gets of each NodeModule, and what its agent reports.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{content::MAX_PARTS, module::NodeOnDelete};
use crate::{failure::FailureClass, kind::kind, schema, unread};

/// How many NodeModules may be on one node.
pub const MAX_ROWS: usize = 64;
/// How many paths of a node's drift are named.
pub const MAX_DRIFT: usize = 20;

kind! {
    /// What the node of this name gets, a row for each NodeModule, and what its agent reports. Written by muster; the Node owns it.
    NodeAssemblage, "nodeassemblages", "nasm", crate::definition::columns::node_assemblage, NodeAssemblageSpec, NodeAssemblageStatus, cluster
}

/// What one node gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAssemblageSpec {
    /// A row for each NodeModule; their order has no meaning.
    #[serde(default)]
    #[schemars(length(max = MAX_ROWS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub rows: Vec<NodeRow>,
}

/// What the node gets of one NodeModule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// The NodeModule's name.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub name: String,
    /// The uid of the NodeModule: with its name and the revision it names the NodeRevision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: Option<String>,
    /// The hash of the content. Absent: a fence, or a withdrawal of what was never assigned. In a withdrawal: what was there last; its
    /// reloaders and checks are those of the way back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The parts of the content that select this node, by number.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(schema_with = "parts")]
    pub parts: BTreeSet<u32>,
    /// The values of variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "values")]
    pub values: BTreeMap<String, String>,
    /// The hash of what this node gets; echoed in status. The agent refuses to carry out what hashes to something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// Grows with each decision about the node, never falls; echoed in status.
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: u64,
    /// The rollout in which this is tried, by when it began, in milliseconds. The agent does not take up again what failed on the node,
    /// unless it is asked to in another rollout, as after muster rollout retry.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub attempt: u64,
    /// The NodeModule is to be withdrawn: Orphan leaves its files, Restore gives back what the node had.
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
    /// Ready: whether every row is carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The agent, by its own report.
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

/// What an agent reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAgent {
    /// Its version.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub version: String,
    /// What rows may ask of it beyond what every agent can do, by name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(schema_with = "schema::features")]
    pub features: BTreeSet<String>,
    /// It is held on the node: it writes nothing but a pending restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<LocalHold>,
}

/// A hold that was set on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalHold {
    /// Until when.
    pub until: Time,
    /// Why.
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub reason: String,
}

/// The state of one row, with the digest and token of the row that it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRowState {
    /// The NodeModule's name.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub name: String,
    /// The row's digest, echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// The row's token, echoed.
    #[serde(default)]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: u64,
    /// Where the row stands.
    pub state: NodePhase,
    /// What a failure is about: the revision, this node, or the infrastructure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// A failure that will not go away by waiting.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Why, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
    /// The digest of what the node carries: of the last change that was confirmed there. After a restore it is that of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub confirmed: Option<String>,
    /// Files that are not as this revision wrote them; the first 20, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "paths")]
    pub drift: Vec<String>,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodePhase {
    /// Written, reloaded, and the checks held.
    Confirmed,
    /// Not so; what the node had is restored unless the reason says otherwise.
    Failed,
    /// On the way.
    #[default]
    Updating,
    /// The files are being given back.
    Withdrawing,
    /// Nothing is left of it.
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

/// Values by the name of a variable: those of labels have the key in their name.
fn values(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 2 * schema::MAX_VALUES,
        "additionalProperties": { "type": "string", "maxLength": schema::MAX_VALUE },
    })
}
