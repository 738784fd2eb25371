//! `Module` and `BootstrapModule`, which share one spec and one status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{
    Resource,
    core::object::{HasSpec, HasStatus},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    control_status::ControlStatus,
    kind::kind,
    rollout::Rollout,
    schema,
    sync::{Binding, Sync, VerifyMode},
};

kind! {
    /// Rolls out one exact version of a piece of configuration to the clusters that it selects. The agent of each
    /// cluster applies it.
    #[schemars(transform = schema::dns_label_name)]
    Module, "modules", "mmod", crate::definition::columns::module_columns, ModuleSpec, ModuleStatus
}

kind! {
    /// A module for what must exist in a cluster before its agent does, such as Flux, muster itself, or CRDs. It is
    /// applied from the management cluster.
    #[schemars(transform = schema::dns_label_name)]
    BootstrapModule, "bootstrapmodules", "bmod", crate::definition::columns::module_columns, ModuleSpec, ModuleStatus
}

/// What `Module` and `BootstrapModule` have in common, so that one controller serves both.
pub trait ModuleObject:
    Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
    + HasSpec<Spec = ModuleSpec>
    + HasStatus<Status = ModuleStatus>
    + Clone
    + std::fmt::Debug
    + DeserializeOwned
    + Serialize
    + Send
    + std::marker::Sync
    + 'static
{
    /// Whether this is a Module or a BootstrapModule.
    const KIND: ModuleKind;
}

impl ModuleObject for Module {
    const KIND: ModuleKind = ModuleKind::Module;
}

impl ModuleObject for BootstrapModule {
    const KIND: ModuleKind = ModuleKind::BootstrapModule;
}

/// The two module kinds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ModuleKind {
    /// Applied by the agent of each cluster.
    #[default]
    Module,
    /// Applied from the management cluster.
    BootstrapModule,
}

impl ModuleKind {
    /// Name of the Kubernetes kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Module => "Module",
            Self::BootstrapModule => "BootstrapModule",
        }
    }
}

impl std::fmt::Display for ModuleKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is rolled out, where, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "duration(self.sync.__package__.timeout) + duration(self.sync.__package__.retryInterval) < duration(self.rollout.deadlines.progress)",
    "message": "sync.package.timeout and sync.package.retryInterval together must be shorter than rollout.deadlines.progress, or a cluster is overdue before the first retry",
    "fieldPath": ".rollout.deadlines.progress",
}]))]
pub struct ModuleSpec {
    /// Selects Clusters in this namespace by their labels. Absent: none. Empty ({}): all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// What is rolled out.
    pub sync: Sync,
    /// Variables that are evaluated in the management cluster, once for each cluster. CLUSTER_NAME and
    /// CLUSTER_LABEL_<key> are built in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub control_plane_bindings: Vec<Binding>,
    /// Modules that must be confirmed in a cluster before this one is assigned to it; withdrawal is in reverse order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "name"]))]
    pub depends_on: Vec<Dependency>,
    /// What prevents this module from starting a change in a cluster; a change that is in flight continues. Absent:
    /// ClusterUpgrade. Empty ([]): nothing, for modules that an upgrade itself needs, such as a CNI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub avoid: Option<Vec<Avoided>>,
    /// How the revision is rolled out to the clusters.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub rollout: Rollout,
    /// What happens to the applied objects in the clusters when this module is deleted: Withdraw or Orphan. Unset:
    /// Withdraw, unless that would affect more clusters than rollout.withdraw.brake allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDelete>,
    /// Suspends this module: no assignments, no withdrawals. Clusters keep what they have.
    #[serde(default)]
    pub suspend: bool,
}

impl ModuleSpec {
    /// Whether a change of this kind prevents the module from starting its own.
    pub fn avoids(&self, what: Avoided) -> bool {
        self.avoid.as_ref().is_none_or(|avoided| avoided.contains(&what))
    }
}

/// A state of a Cluster in which a module starts no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Avoided {
    /// Machines of a Cluster with ClusterUpgrades enabled (annotation fleet.muster.dev/upgrades=muster) are being
    /// replaced: its condition RollingOut is true.
    ClusterUpgrade,
}

/// A module that another module depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Kind of the module: Module or BootstrapModule.
    #[serde(default)]
    pub kind: ModuleKind,
    /// Name of the module, in the same namespace.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
}

/// What happens to the applied objects in the clusters when a module is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDelete {
    /// The objects are removed, a limited number of clusters at a time.
    Withdraw,
    /// The objects stay in place.
    Orphan,
}

/// Observed state of a module's rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready is always present; Reconciling, Stalled, Paused, Halted, SelectsAll and TagMoved only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Summary for the STATUS column of kubectl get: the reason of Ready, plus Paused, Held and Pinned where they
    /// apply, such as Succeeded,Held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub state: Option<String>,
    /// What the version was resolved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceStatus>,
    /// The target revision: the hash of commit, path, options and binding definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Number of clusters by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The reasons for the states of the clusters: each reason with all its clusters, in order of precedence. A cluster
    /// that is listed under no reason is not selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"]))]
    pub reasons: Vec<ReasonGroup>,
    /// The clusters that need attention, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub attention: Vec<Attention>,
    /// The annotations paused, hold and pin, on this module and on Clusters, and their effect; those without effect are
    /// listed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub controls: Vec<ControlStatus>,
    /// Persisted state of the rollout engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// The last value of the annotation reconcile.fluxcd.io/requestedAt that was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_handled_reconcile_at: Option<String>,
}

/// The commit or digest that a version was resolved to, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// URL of the repository in which the version was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_URL))]
    pub url: Option<String>,
    /// The tag that was resolved, if the version is a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_TAG))]
    pub tag: Option<String>,
    /// The pinned commit; for an OCI artifact, the digits of its SHA-256 digest.
    #[schemars(length(max = 64))]
    pub commit: String,
    /// When the commit was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at: Option<Time>,
    /// How the signature was verified, if the module requires a signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedBy>,
    /// For a source that Flux reads: the hash of kind, URL, version and verification for which the commit or digest is
    /// pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub request: Option<String>,
}

/// How the signature of a version was verified, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedBy {
    /// What is signed: the tag or the commit.
    pub mode: VerifyMode,
    /// Name of the Secret that contains the trusted keys.
    #[schemars(length(max = schema::MAX_NAME))]
    pub secret: String,
    /// Type and fingerprint of the key that verified the signature.
    #[schemars(length(max = 256))]
    pub signer: String,
}

/// Number of clusters of a module by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// Number of selected clusters.
    pub total: u32,
    /// Clusters that are confirmed at the target revision.
    pub updated: u32,
    /// Clusters that are ready at any revision and not changing.
    pub ready: u32,
    /// Clusters that are changing.
    pub updating: u32,
    /// Clusters that have not started yet.
    pub waiting: u32,
    /// Clusters where a revision failed.
    pub failed: u32,
    /// Clusters that cannot be changed now: not ready, unreachable, paused, being deleted.
    pub skipped: u32,
    /// Clusters that are held or pinned by a user.
    pub held: u32,
    /// Clusters from which the module is being withdrawn.
    pub withdrawing: u32,
    /// Updated clusters out of all selected ones, such as 3/5.
    #[schemars(length(max = 32))]
    pub clusters: String,
}

/// The clusters that share one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonGroup {
    /// Machine-readable reason, in CamelCase.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// Number of clusters with this reason.
    pub count: u32,
    /// Names of the clusters, separated by commas; consecutive numbers are folded into ranges, such as
    /// eu-{001..040},us-7.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS_SIZE))]
    pub clusters: String,
    /// Whether the names are omitted for lack of space: all reasons together are limited to 32 KiB, which the smallest
    /// groups get first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Human-readable details, if they are the same for all of the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
}

/// A cluster that needs attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// Name of the cluster.
    #[schemars(length(max = schema::MAX_NAME))]
    pub cluster: String,
    /// Machine-readable reason, in CamelCase.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// When the cluster entered this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Human-readable details.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}

/// Persisted state of the rollout engine. Opaque: only muster reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Version of the encoding.
    pub version: u32,
    /// The uid of the Module that the state belongs to; the state of another Module is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: Option<String>,
    /// The encoded state.
    #[schemars(length(max = schema::MAX_MEMORY))]
    pub memory: String,
}
