//! `GitRepository`: a repository, the state of it that is wanted, and the artifact that was last fetched.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LocalObjectReference;

/// Where a repository is and which state of it is wanted.
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

    /// How often the reference is looked up again, as a Go duration (`10m`).
    #[schemars(length(max = 64), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub interval: String,

    /// What to fetch. Without it: the branch `master`.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<GitRepositoryRef>,

    /// A Secret of this namespace with `username` and `password`, `bearerToken`, `ca.crt`, or `tls.crt` and `tls.key`; over ssh with `identity`, `known_hosts` and, for an encrypted
    /// key, `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,

    /// A Secret of this namespace that names an HTTP proxy: `address`, and `username` with `password` if it asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalObjectReference>,

    /// Deadline of one fetch, as a Go duration. Without it: 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$"))]
    pub timeout: Option<String>,

    /// Patterns of files that are left out, in the format of `.gitignore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub ignore: Option<String>,

    /// Whether fetching is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// By whom what is wanted must be signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<GitRepositoryVerification>,

    /// Every field that is not modelled here, by its name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// The state of a repository that is wanted. The first one that is set counts, in the order commit, name, semver, tag,
/// branch; a branch beside a commit only says where the commit is to be found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GitRepositoryRef {
    /// A branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub branch: Option<String>,

    /// A tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub tag: Option<String>,

    /// A range of versions, of whose tags the highest is taken.
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

/// By whom what is wanted must be signed. All fields can be read without, so that an object that lacks one is refused by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryVerification {
    /// What must be signed: `HEAD` (or `head`), the commit; `Tag`, the tag; or `TagAndHEAD`. Without it: `HEAD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub mode: Option<String>,

    /// A Secret of this namespace with the public keys that are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,
}

/// What was fetched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready`, and while they are true `Reconciling` and `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// The last good artifact; it stays when a later fetch fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,

    /// The `reconcile.fluxcd.io/requestedAt` that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,

    /// The `spec.ignore` that the artifact was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_ignore: Option<String>,

    /// The `spec.verify.mode` that the artifact was verified with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_verification_mode: Option<String>,
}

/// A state of a repository that was fetched and can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// `sha1:<hex>`, or `<ref>@sha1:<hex>`. Only what follows the last `:` is compared.
    pub revision: String,

    /// Digest of the content, as `<algorithm>:<hex>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,

    /// Size of the content, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,

    /// When the artifact was made.
    pub last_update_time: Time,

    /// Where the artifact lies in Flux's storage. Nothing lies there of artifacts of muster, which reads git's object database.
    #[serde(default)]
    pub path: String,

    /// Address from which Flux serves the artifact; empty for artifacts of muster.
    #[serde(default)]
    pub url: String,
}
