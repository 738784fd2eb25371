//! `OCIRepository`: an artifact of a registry, and what of it was last fetched. Only Flux carries it out.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GitRepositoryStatus;

/// Where an artifact is and which state of it is wanted.
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
    /// The artifact without tag and digest.
    pub url: String,

    /// How often the reference is resolved again, as a Go duration.
    pub interval: String,

    /// Deadline of one fetch, as a Go duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,

    /// Whether fetching is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// Every other field, by its name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}
