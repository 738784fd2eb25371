//! `ModuleRevision`: what a revision was, and its story.

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
    /// What a revision of a module was, whole and immutable, and its story: when it started and finished, the verdict and its evidence. Written by muster.
    ModuleRevision, "modulerevisions", "mrev", crate::definition::columns::module_revision, ModuleRevisionSpec, ModuleRevisionStatus
}

/// What a revision was. Immutable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self == oldSelf", "message": "a ModuleRevision is immutable: it is what was rolled out" },
]))]
pub struct ModuleRevisionSpec {
    /// The module.
    pub module_ref: ModuleReference,
    /// The hash of commit, path, options and binding definitions.
    #[schemars(length(min = 64, max = 64))]
    pub revision: String,
    /// The commit that the version stood for.
    #[schemars(length(min = 40, max = 64), regex(pattern = schema::COMMIT))]
    pub commit: String,
    /// What was rolled out.
    pub sync: Sync,
    /// The definitions of the variables that are evaluated in the management cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub control_plane_bindings: Vec<Binding>,
}

/// A module by kind, name and uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleReference {
    /// Module or BootstrapModule.
    pub kind: ModuleKind,
    /// The module's name.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub name: String,
    /// The module's uid: a module that was made again is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: Option<String>,
}

/// The story of a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleRevisionStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: whether the revision was rolled out everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The first of its rollouts, if it was rolled out several times; the other fields are about the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstRollout>,
    /// When its rollout began; if it was rolled out several times, the last one.
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
    pub evidence: Vec<Evidence>,
    /// Steps of its plan that were skipped by hand: complete without evidence. Each with its cluster, and by whom and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), inner(length(max = schema::MAX_MESSAGE)), extend("x-kubernetes-list-type" = "atomic"))]
    pub skipped: Vec<String>,
    /// The clusters in numbers when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Summary>,
}

/// The first rollout of a revision that was rolled out again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirstRollout {
    /// When it began.
    pub started: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Updated clusters of all selected ones when it ended, such as 5/5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub clusters: Option<String>,
}

/// What became of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// Confirmed on every eligible selected cluster.
    Good,
    /// Condemned: it failed on more clusters than allowed.
    Bad,
    /// Ended by a person, without blame.
    Aborted,
    /// Another revision took its place before it was done.
    Superseded,
}

/// One cluster on which a revision failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The cluster's name.
    #[schemars(length(max = schema::MAX_NAME))]
    pub cluster: String,
    /// When it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// What was seen.
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}
