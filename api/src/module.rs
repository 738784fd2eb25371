//! `Module` and `BootstrapModule`: one spec and one status for both.

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
    /// One exactly versioned piece of configuration, the clusters that it is for, and how it rolls over them. It is carried to clusters by their own agent.
    #[schemars(transform = schema::dns_label_name)]
    Module, "modules", "mmod", crate::definition::columns::module, ModuleSpec, ModuleStatus
}

kind! {
    /// A module for what must exist in a cluster before an agent does, such as Flux, muster itself, or CRDs. It is applied from the management cluster.
    #[schemars(transform = schema::dns_label_name)]
    BootstrapModule, "bootstrapmodules", "bmod", crate::definition::columns::module, ModuleSpec, ModuleStatus
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
    /// Which of the two kinds this is.
    const KIND: ModuleKind;
}

impl ModuleObject for Module {
    const KIND: ModuleKind = ModuleKind::Module;
}

impl ModuleObject for BootstrapModule {
    const KIND: ModuleKind = ModuleKind::BootstrapModule;
}

/// The two kinds of modules.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ModuleKind {
    /// Carried to clusters by their own agent.
    #[default]
    Module,
    /// Applied from the management cluster.
    BootstrapModule,
}

impl ModuleKind {
    /// The kind's name as Kubernetes knows it.
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
    "message": "sync.package.timeout and sync.package.retryInterval together must be shorter than rollout.deadlines.progress, or a cluster is overdue before it was tried twice",
    "fieldPath": ".rollout.deadlines.progress",
}]))]
pub struct ModuleSpec {
    /// Which clusters of this namespace: a selector over the labels of Cluster objects. Absent: none. Empty ({}): all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// What is rolled out.
    pub sync: Sync,
    /// Variables evaluated in the management cluster, once for each cluster. CLUSTER_NAME and CLUSTER_LABEL_<key> are given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub control_plane_bindings: Vec<Binding>,
    /// Modules that must be confirmed in a cluster before this one is assigned to it; withdrawn in reverse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "name"]))]
    pub depends_on: Vec<Dependency>,
    /// What keeps this module from beginning a change in a cluster; one that is in flight goes on. Absent: ClusterUpgrade. Empty ([]): nothing, for what an upgrade needs itself, such as a CNI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub avoid: Option<Vec<Avoided>>,
    /// How the revision rolls over the clusters.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub rollout: Rollout,
    /// What becomes of the clusters' objects when this module is deleted: Withdraw or Orphan. Unset: Withdraw, unless that would touch more clusters than rollout.withdraw.brake allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDelete>,
    /// Do nothing at all with this module: no assignment, no withdrawal. Clusters keep what they have.
    #[serde(default)]
    pub suspend: bool,
}

impl ModuleSpec {
    /// Whether this keeps the module from beginning a change.
    pub fn avoids(&self, what: Avoided) -> bool {
        self.avoid.as_ref().is_none_or(|avoided| avoided.contains(&what))
    }
}

/// What a module keeps out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Avoided {
    /// Machines of a Cluster that asks for ClusterUpgrades (annotation fleet.muster.dev/upgrades=muster) are being replaced: its condition RollingOut is true.
    ClusterUpgrade,
}

/// A module that another one needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Module or BootstrapModule.
    #[serde(default)]
    pub kind: ModuleKind,
    /// The module's name, in the same namespace.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
}

/// What becomes of the clusters' objects when a module is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDelete {
    /// They are removed, through the window.
    Withdraw,
    /// They stay.
    Orphan,
}

/// What was seen of a module's rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready always; Reconciling, Stalled, Paused, Halted, SelectsAll and TagMoved only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How the module stands, for the column STATUS of kubectl get: the reason of Ready, and Paused, Held and Pinned where that is so, such as
    /// Succeeded,Held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub state: Option<String>,
    /// What the version was resolved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceStatus>,
    /// The targeted revision: the hash of commit, path, options and binding definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The clusters in numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Why each cluster is where it is: every reason with all of its clusters, in the order of precedence. A cluster in none is not selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"]))]
    pub reasons: Vec<ReasonGroup>,
    /// The clusters that need attention, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub attention: Vec<Attention>,
    /// What people say by the annotations paused, hold and pin, here and on Clusters, and what came of it: first what has no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub controls: Vec<ControlStatus>,
    /// What the rollout engine remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// The last value of reconcile.fluxcd.io/requestedAt that was acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_handled_reconcile_at: Option<String>,
}

/// What a version was resolved to, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// The repository that it was resolved in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_URL))]
    pub url: Option<String>,
    /// The tag that was resolved, if the version is a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_TAG))]
    pub tag: Option<String>,
    /// The pinned commit; of an OCI artifact the digits of its SHA-256 digest.
    #[schemars(length(max = 64))]
    pub commit: String,
    /// When the commit was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at: Option<Time>,
    /// What its signature was verified by, where the module asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedBy>,
    /// Of a source that Flux reads: the hash of kind, address, version and verification, for which the commit or digest is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub request: Option<String>,
}

/// What a version was verified by, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedBy {
    /// What is signed.
    pub mode: VerifyMode,
    /// The Secret that the keys came from.
    #[schemars(length(max = schema::MAX_NAME))]
    pub secret: String,
    /// The kind and the fingerprint of the key that signed it.
    #[schemars(length(max = 256))]
    pub signer: String,
}

/// The clusters of a module in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// Selected clusters.
    pub total: u32,
    /// Clusters that are confirmed at the target.
    pub updated: u32,
    /// Clusters that are ready at whatever revision they have, and are not changing.
    pub ready: u32,
    /// Clusters that are changing.
    pub updating: u32,
    /// Clusters whose turn has not come.
    pub waiting: u32,
    /// Clusters on which a revision failed.
    pub failed: u32,
    /// Clusters that cannot be changed now: not ready, unreachable, paused, being deleted.
    pub skipped: u32,
    /// Clusters that are held or pinned by a person.
    pub held: u32,
    /// Clusters that are being withdrawn from.
    pub withdrawing: u32,
    /// Updated clusters of all, such as 3/5.
    #[schemars(length(max = 32))]
    pub clusters: String,
}

/// The clusters that are where they are for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonGroup {
    /// Why, as one word.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// How many clusters there are.
    pub count: u32,
    /// Their names, separated by commas; numbers that follow each other are a range, such as eu-{001..040},us-7.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS_SIZE))]
    pub clusters: String,
    /// There is no room for the names: all reasons together have 32 KiB, and the smallest groups come first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Why, for people, where it is the same for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
}

/// A cluster that needs attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// The cluster's name.
    #[schemars(length(max = schema::MAX_NAME))]
    pub cluster: String,
    /// Why, as one word.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Why, for people.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}

/// What the rollout engine remembers between two decisions. Opaque: only muster reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The version of the memory's encoding.
    pub version: u32,
    /// The uid of the Module that the memory is about; another one's is not believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: Option<String>,
    /// The memory, encoded.
    #[schemars(length(max = schema::MAX_MEMORY))]
    pub memory: String,
}
