//! `NodeRevision`: what a revision of a NodeModule was, and its verdict.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::content::NodeContent;
use crate::{digest, kind::kind, revision::Verdict, schema};

kind! {
    /// What a revision of a NodeModule was, whole and immutable, and what became of it. Written by muster; the agents of nodes read it.
    NodeRevision, "noderevisions", "nrev", crate::definition::columns::node_revision, NodeRevisionSpec, NodeRevisionStatus, cluster
}

/// What a revision was. Immutable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self == oldSelf", "message": "a NodeRevision is immutable: it is what was rolled out" },
]))]
pub struct NodeRevisionSpec {
    /// The NodeModule's name.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub module: String,
    /// The NodeModule's uid: one that was made again is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: Option<String>,
    /// The hash of the content: 64 hexadecimal digits.
    #[schemars(length(min = 64, max = 64))]
    pub revision: String,
    /// What nodes get.
    pub content: NodeContent,
}

/// What became of a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRevisionStatus {
    /// When its rollout began; of several, the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
    /// What became of it; none while it rolls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What the verdict rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub evidence: Vec<NodeEvidence>,
}

/// One node on which a revision failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvidence {
    /// The node's name.
    #[schemars(length(max = schema::MAX_NAME))]
    pub node: String,
    /// When it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// What was observed.
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}

/// The identity of a content: 64 hexadecimal digits. The same fields in another order, or with defaults written out, are the same.
pub fn revision(content: &NodeContent) -> String {
    digest::sha256_hex(&[&digest::canonical(&json!(content))])
}
