//! `OCIRepository`: an artifact in a registry, and what was last fetched. Only Flux reconciles this kind.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GitRepositoryStatus;

/// Where the artifact is, and which reference to fetch.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "source.toolkit.fluxcd.io",
    version = "v1",
    kind = "OCIRepository",
    plural = "ocirepositories",
    root = "OciRepository",
    namespaced,
    status = "GitRepositoryStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct OciRepositorySpec {
    /// URL of the artifact, without tag and digest.
    pub url: String,

    /// How often the reference is resolved again, as a Go duration.
    pub interval: String,

    /// Timeout of one fetch, as a Go duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,

    /// Whether fetching is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// Every field that muster does not model, by name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}
