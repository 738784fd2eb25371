//! `GitRepository`: a repository, the reference to fetch from it, and the artifact that was last fetched.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LocalObjectReference;

/// Where the repository is, and which reference to fetch.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "source.toolkit.fluxcd.io",
    version = "v1",
    kind = "GitRepository",
    plural = "gitrepositories",
    shortname = "gitrepo",
    namespaced,
    status = "GitRepositoryStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.url"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct GitRepositorySpec {
    /// URL of the repository.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,

    /// How often the reference is resolved again, as a Go duration (`10m`).
    #[schemars(length(max = 64), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub interval: String,

    /// The reference to fetch. Defaults to the branch `master`.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<GitRepositoryRef>,

    /// A Secret in this namespace with `username` and `password`, `bearerToken`, `ca.crt`, or `tls.crt` and `tls.key`;
    /// over ssh with `identity`, `known_hosts` and, for an encrypted key, `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,

    /// A Secret in this namespace that configures an HTTP proxy: `address`, and `username` with `password` if the proxy
    /// requires authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalObjectReference>,

    /// Timeout of one fetch, as a Go duration. Defaults to 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$"))]
    pub timeout: Option<String>,

    /// Patterns of files to exclude from the artifact, in the format of `.gitignore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub ignore: Option<String>,

    /// Whether fetching is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// Signature verification of the fetched reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<GitRepositoryVerification>,

    /// Every field that muster does not model, by name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// The reference to fetch. The first one that is set wins, in the order commit, name, semver, tag, branch; a branch
/// together with a commit only says where to find the commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GitRepositoryRef {
    /// Name of a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub branch: Option<String>,

    /// Name of a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub tag: Option<String>,

    /// A semver range; the highest matching tag is fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub semver: Option<String>,

    /// A full reference name, such as `refs/pull/420/head`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub name: Option<String>,

    /// A commit by its full hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub commit: Option<String>,
}

/// Signature verification. All fields are optional when parsed, so that an object with a missing field is rejected with
/// the field's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryVerification {
    /// What must be signed: `HEAD` (or `head`), the commit; `Tag`, the tag; or `TagAndHEAD`, both. Defaults to `HEAD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub mode: Option<String>,

    /// A Secret in this namespace with the trusted public keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,
}

/// The result of fetching.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready` always; `Reconciling` and `Stalled` while they are true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// The last successfully fetched artifact; it is kept when a later fetch fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,

    /// The last value of `reconcile.fluxcd.io/requestedAt` that was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,

    /// The `spec.ignore` that the artifact was built with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_ignore: Option<String>,

    /// The `spec.verify.mode` that the artifact was verified with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_verification_mode: Option<String>,
}

/// A fetched state of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// `sha1:<hex>`, or `<ref>@sha1:<hex>`. Only what follows the last `:` is compared.
    pub revision: String,

    /// Digest of the content, as `<algorithm>:<hex>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,

    /// Size of the content, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,

    /// When the artifact was created.
    pub last_update_time: Time,

    /// Path of the artifact in Flux's storage. muster's artifacts are not stored there: muster reads git's object
    /// database.
    #[serde(default)]
    pub path: String,

    /// URL from which Flux serves the artifact; empty for muster's artifacts.
    #[serde(default)]
    pub url: String,
}
