//! `NodeRevision`: a snapshot of a NodeModule's revision, and its outcome.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::content::NodeContent;
use crate::{digest, kind::kind, revision::Verdict, schema};

kind! {
    /// A complete, immutable snapshot of a NodeModule's revision, and its outcome. Written by muster; read by the
    /// agents of nodes.
    NodeRevision, "noderevisions", "nrev", crate::definition::columns::node_revision_columns, NodeRevisionSpec, NodeRevisionStatus, cluster
}

/// Snapshot of a revision. Immutable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self == oldSelf", "message": "a NodeRevision is immutable: it is what was rolled out" },
]))]
pub struct NodeRevisionSpec {
    /// Name of the NodeModule.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub module: String,
    /// The uid of the NodeModule, to distinguish it from a re-created NodeModule of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: Option<String>,
    /// The hash of the content: 64 hexadecimal digits.
    #[schemars(length(min = 64, max = 64))]
    pub revision: String,
    /// What nodes get.
    pub content: NodeContent,
}

/// The outcome of a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRevisionStatus {
    /// When its rollout started; the last one, if there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When that rollout ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
    /// The outcome of the rollout; absent while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The failures that the verdict is based on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub evidence: Vec<NodeEvidence>,
}

/// A node where a revision failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvidence {
    /// Name of the node.
    #[schemars(length(max = schema::MAX_NAME))]
    pub node: String,
    /// When the failure was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Human-readable description of the failure.
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}

/// The identity of a content: 64 hexadecimal digits. The order of fields and explicit defaults make no difference.
pub fn content_revision(content: &NodeContent) -> String {
    digest::sha256_hex(&[&digest::canonical(&json!(content))])
}
