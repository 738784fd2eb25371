//! `Kustomization`: a path in a source, how and where it is applied, and the result.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is applied, how, and where.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kustomize.toolkit.fluxcd.io",
    version = "v1",
    kind = "Kustomization",
    shortname = "ks",
    namespaced,
    status = "KustomizationStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct KustomizationSpec {
    /// Reference to the source of the manifests.
    pub source_ref: SourceReference,

    /// Directory relative to the root of the source. Defaults to the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub path: Option<String>,

    /// Whether objects that are no longer in the source are deleted.
    pub prune: bool,

    /// How often everything is applied and checked again, as a Go duration (`10m`).
    #[schemars(length(max = 64), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub interval: String,

    /// How soon a failure is retried, as a Go duration. Defaults to `interval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub retry_interval: Option<String>,

    /// Timeout of the apply and of the health checks, each, as a Go duration. Defaults to `interval` minus 30 s, at
    /// least 30 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub timeout: Option<String>,

    /// Whether to wait for the health of every applied object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,

    /// Objects whose health to wait for. Ignored if `wait` is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub health_checks: Vec<ObjectReference>,

    /// CEL expressions that determine the health of objects of a kind: one entry for each group and kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub health_check_exprs: Vec<HealthCheckExpressions>,

    /// Kustomizations that must be Ready before this one is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub depends_on: Vec<DependencyReference>,

    /// Namespace that overrides the namespace of all namespaced objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,

    /// Variables that are substituted in the manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_build: Option<PostBuild>,

    /// The cluster to apply to, if it is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigReference>,

    /// Whether an object is deleted and re-created when an immutable field changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,

    /// Whether applying is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// What happens to the applied objects when the Kustomization is deleted. Defaults to `MirrorPrune`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,

    /// Every field that muster does not model, by name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// What happens to the applied objects when their Kustomization is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The objects are deleted if `prune` is true, otherwise left in place.
    #[default]
    MirrorPrune,
    /// The objects are deleted.
    Delete,
    /// The objects are deleted, and the Kustomization remains until they are gone.
    WaitForTermination,
    /// The objects are left in place.
    Orphan,
}

/// Reference to the source of the manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceReference {
    /// API version of the source. Defaults to the version that is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,

    /// Kind of the source: `GitRepository`.
    #[schemars(length(max = 63))]
    pub kind: String,

    /// Name of the source.
    #[schemars(length(max = 253))]
    pub name: String,

    /// Namespace of the source. Defaults to that of the Kustomization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}

/// A Kustomization that must be Ready first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct DependencyReference {
    /// Name of the Kustomization.
    #[schemars(length(max = 253))]
    pub name: String,

    /// Namespace of the Kustomization. Defaults to that of the dependent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,

    /// Every field that muster does not model, by name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// An object whose health to wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// API version of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,

    /// Kind of the object.
    #[schemars(length(max = 63))]
    pub kind: String,

    /// Name of the object.
    #[schemars(length(max = 253))]
    pub name: String,

    /// Namespace of the object, if its kind is namespaced. Defaults to that of the Kustomization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}

/// How the health of objects of a kind is determined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct HealthCheckExpressions {
    /// API version of the kind; only its group is used.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,

    /// The kind of the objects.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,

    /// CEL expression that is true if the object matches its spec.
    #[schemars(length(max = 4096))]
    pub current: String,

    /// CEL expression that is true while the object's controller has not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub in_progress: Option<String>,

    /// CEL expression that is true if the object's controller has given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub failed: Option<String>,

    /// Every field that muster does not model, by name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// Variables that are substituted in the manifests after the build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PostBuild {
    /// Variables by name; they take precedence over those of `substituteFrom`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub substitute: BTreeMap<String, String>,

    /// ConfigMaps and Secrets that hold variables; later entries take precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub substitute_from: Vec<SubstituteReference>,

    /// Every field that muster does not model, by name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// A ConfigMap or Secret in the Kustomization's namespace that holds variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubstituteReference {
    /// `ConfigMap` or `Secret`.
    pub kind: SubstituteSourceKind,

    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Whether it may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// The kinds of objects that may hold variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubstituteSourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// How to connect to another cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct KubeConfigReference {
    /// The Secret that holds a kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyReference>,

    /// Every field that muster does not model, by name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// A key of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Key in the Secret. Defaults to `value`, then `value.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub key: Option<String>,
}

/// Observed state of a Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizationStatus {
    /// The generation of the spec that was last applied, or at which the Kustomization stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready` always, `Healthy` if health checks are enabled, `Reconciling` and `Stalled` while they are true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// The revision that was last applied and found healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,

    /// The revision of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,

    /// The last value of `reconcile.fluxcd.io/requestedAt` that was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,

    /// Every object that may exist because of this Kustomization; pruning is based on this list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
}

/// The objects that a Kustomization applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// One entry for each object.
    pub entries: Vec<InventoryEntry>,
}

/// One object of an inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct InventoryEntry {
    /// `<namespace>_<name>_<group>_<kind>`.
    pub id: String,

    /// API version at which the object was last applied.
    #[serde(rename = "v")]
    pub version: String,
}
