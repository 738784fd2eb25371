//! `ModuleRevision`: a snapshot of a module's revision, and its history.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    kind::kind,
    module::{ModuleKind, Summary},
    schema,
    sync::{Binding, Sync},
};

kind! {
    /// A complete, immutable snapshot of a module's revision, and its history: when its rollout started and finished,
    /// the verdict, and the evidence. Written by muster.
    ModuleRevision, "modulerevisions", "mrev", crate::definition::columns::module_revision_columns, ModuleRevisionSpec, ModuleRevisionStatus
}

/// Snapshot of a revision. Immutable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self == oldSelf", "message": "a ModuleRevision is immutable: it is what was rolled out" },
]))]
pub struct ModuleRevisionSpec {
    /// The module that the revision belongs to.
    pub module_ref: ModuleReference,
    /// The hash of commit, path, options and binding definitions.
    #[schemars(length(min = 64, max = 64))]
    pub revision: String,
    /// The commit that the version resolved to.
    #[schemars(length(min = 40, max = 64), regex(pattern = schema::COMMIT))]
    pub commit: String,
    /// The sync that was rolled out.
    pub sync: Sync,
    /// Definitions of the variables that are evaluated in the management cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub control_plane_bindings: Vec<Binding>,
}

/// Reference to a module by kind, name and uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleReference {
    /// Kind of the module: Module or BootstrapModule.
    pub kind: ModuleKind,
    /// Name of the module.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub name: String,
    /// The uid of the module, to distinguish it from a re-created module of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: Option<String>,
}

/// The history of a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleRevisionStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready is true if the revision was rolled out everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The first rollout of the revision, if there were several; the other fields describe the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstRollout>,
    /// When the rollout started; the last one, if there were several.
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
    pub evidence: Vec<Evidence>,
    /// Plan steps that were skipped manually, and therefore completed without evidence: each with its cluster, who
    /// skipped it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), inner(length(max = schema::MAX_MESSAGE)), extend("x-kubernetes-list-type" = "atomic"))]
    pub skipped: Vec<String>,
    /// Number of clusters by state when the rollout ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Summary>,
}

/// The first rollout of a revision that was rolled out again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirstRollout {
    /// When the rollout started.
    pub started: Time,
    /// When the rollout ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
    /// The outcome of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Updated clusters out of all selected ones when the rollout ended, such as 5/5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub clusters: Option<String>,
}

/// The outcome of a revision's rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// Confirmed on every eligible selected cluster.
    Good,
    /// Condemned: it failed on more clusters than allowed.
    Bad,
    /// Aborted by a user; the revision is not blamed.
    Aborted,
    /// Superseded by another revision before the rollout was complete.
    Superseded,
}

/// A cluster where a revision failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Name of the cluster.
    #[schemars(length(max = schema::MAX_NAME))]
    pub cluster: String,
    /// When the failure was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Human-readable description of the failure.
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}
