//! `ProxyAssemblage`, `RemoteAssemblage` and `Assemblage`: the syncs of one cluster, and their rows.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    evidence::{Assumed, Progress},
    kind::kind,
    plan::{PlanControl, PlanRunReport},
    schema,
    shared::{Pool, Poolable, Shared},
    sync::{Binding, LocalReference, Package, Source},
    unread,
};

pub use crate::failure::FailureClass;

kind! {
    /// Lists the syncs of one cluster; they are mirrored into an Assemblage in that cluster. Written by Modules or
    /// other rollout automation.
    ProxyAssemblage, "proxyassemblages", "pasm", crate::definition::columns::targeted_assemblage, TargetedAssemblageSpec, AssemblageStatus
}

kind! {
    /// Lists the syncs of one cluster; they are applied from the management cluster. Written by BootstrapModules or
    /// other automation.
    RemoteAssemblage, "remoteassemblages", "rasm", crate::definition::columns::targeted_assemblage, TargetedAssemblageSpec, AssemblageStatus
}

kind! {
    /// Lists the syncs of this cluster. Written by muster's ProxyAssemblage controller from the management cluster.
    Assemblage, "assemblages", "asm", crate::definition::columns::assemblage, AssemblageSpec, AssemblageStatus
}

/// The syncs of one cluster, and a reference to that cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.clusterRef) != has(self.kubeconfigRef)", "message": "set exactly one of clusterRef and kubeconfigRef" },
    {
        "rule": "has(self.clusterRef) == has(oldSelf.clusterRef) && (!has(self.clusterRef) || self.clusterRef.name == oldSelf.clusterRef.name)",
        "message": "clusterRef is immutable: for another cluster create another assemblage",
    },
    {
        "rule": "has(self.kubeconfigRef) == has(oldSelf.kubeconfigRef) && (!has(self.kubeconfigRef) || self.kubeconfigRef.name == oldSelf.kubeconfigRef.name)",
        "message": "kubeconfigRef is immutable: for another cluster create another assemblage",
    },
]))]
pub struct TargetedAssemblageSpec {
    /// Name of the Cluster, in this namespace, that the syncs are for. Immutable: another cluster needs another
    /// assemblage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<LocalReference>,
    /// A Secret in this namespace with a kubeconfig under the key value, for a cluster without a Cluster object.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_ref: Option<LocalReference>,
    /// The syncs, one row each; the order has no meaning.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_SYNCS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub syncs: Vec<Shared<SyncRow>>,
}

/// The syncs of this cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssemblageSpec {
    /// The syncs, one row each; the order has no meaning.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_SYNCS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub syncs: Vec<Shared<SyncRow>>,
}

/// Part of the API server's error message when the stored row already has a greater token.
pub const TOKEN_NEVER_FALLS: &str = "a row's token never falls";

/// One sync of one cluster: configuration to apply (source and package), a sync to withdraw (withdraw), or only a name
/// and a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(oldSelf.token) || (has(self.token) && self.token >= oldSelf.token)",
        "message": "a row's token never falls: another writer changed the row; read it again",
    },
    { "rule": "!has(self.withdraw) || !has(self.source)", "message": "a row with withdraw has no source" },
    { "rule": "has(self.source) || !has(self.__package__)", "message": "a row with a package needs a source" },
    { "rule": "!has(self.source) || !has(self.source.git) || !has(self.source.git.verify)", "message": "verify belongs in the source of a Module: a row contains a commit that is already verified" },
], "x-kubernetes-map-type" = "atomic"))]
// The row is atomic: managed fields for each field of each row would be a third of the object.
pub struct SyncRow {
    /// Name of the sync; for a row of a module, the module's name.
    #[schemars(length(min = 1, max = schema::MAX_NAME), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
    /// Where the configuration comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Which part of the source is applied, and how. If source is set and this is absent: the whole source, with the
    /// defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Package>,
    /// Variables that are evaluated in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bindings: Vec<Binding>,
    /// Variables that are evaluated in the management cluster, for writers that leave this to the assemblage's
    /// controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub control_plane_bindings: Vec<Binding>,
    /// Control-plane bindings that are already resolved.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::variables")]
    pub values: BTreeMap<String, String>,
    /// The commit that the source's version resolved to; for an OCI artifact, the digits of its SHA-256 digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = schema::COMMIT))]
    pub commit: Option<String>,
    /// The revision of the writer's configuration. Informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The hash of what this cluster gets; reported back in status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// Increases with each decision of the writer about this row and never decreases; reported back in status. Optional
    /// for other automation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: Option<u64>,
    /// Increases with each retry of a failure in this cluster: a failed plan runs again even if its documents are
    /// unchanged. Not part of the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub attempt: Option<u64>,
    /// A one-time manual action on a run of the sync's plan. Not part of the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_control: Option<PlanControl>,
    /// Set to withdraw the sync: Prune deletes its objects, Orphan leaves them in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdraw: Option<Withdraw>,
}

impl Poolable for SyncRow {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<SyncRow> = Pool::new();
        &POOL
    }
}

impl SyncRow {
    /// A row with only a name and a token: a fence, or what remains of a withdrawn sync.
    pub fn bare(name: &str, token: u64) -> Self {
        Self {
            name: name.to_owned(),
            token: Some(token),
            ..Self::default()
        }
    }

    /// A row that requests withdrawal.
    pub fn withdrawal(name: &str, token: u64, withdraw: Withdraw) -> Self {
        Self {
            withdraw: Some(withdraw),
            ..Self::bare(name, token)
        }
    }

    /// What the row requests.
    pub const fn intent(&self) -> Intent<'_> {
        match (self.withdraw, &self.source) {
            (Some(how), _) => Intent::Withdraw(how),
            (None, Some(source)) => Intent::Carry { source },
            (None, None) => Intent::Bare,
        }
    }
}

/// What a row requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent<'a> {
    /// Apply the sync.
    Carry {
        /// The source of the configuration.
        source: &'a Source,
    },
    /// Withdraw the sync.
    Withdraw(Withdraw),
    /// Nothing: the row only keeps its token.
    Bare,
}

/// How a sync is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Withdraw {
    /// The sync's objects are deleted.
    Prune,
    /// The sync's objects stay in place.
    Orphan,
}

impl Withdraw {
    /// What happens to the objects, as human-readable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prune => "objects are deleted",
            Self::Orphan => "objects are kept",
        }
    }
}

/// Observed state of the syncs of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssemblageStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready is always present; Reconciling and Stalled only while true; Reachable only on ProxyAssemblages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When the cluster last answered; set only while it is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_contact: Option<Time>,
    /// The agent that applies the syncs in the cluster, as it reports itself. Absent: the agent does not report itself,
    /// and supports no optional features.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "unread::readable_option"
    )]
    pub agent: Option<Agent>,
    /// The state of each sync.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "unread::readable"
    )]
    // A state that cannot be parsed is skipped. Atomic, as there is only one writer: no managed fields for each field
    // of each state.
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "atomic"))]
    pub syncs: Vec<Shared<SyncState>>,
    /// The last value of the annotation reconcile.fluxcd.io/requestedAt that was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_handled_reconcile_at: Option<String>,
}

/// What an agent reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// The agent's version.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub version: String,
    /// What applies the syncs in its cluster: builtin or flux.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub sync: String,
    /// Names of the optional features that the agent supports.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(schema_with = "schema::features")]
    pub features: BTreeSet<String>,
}

/// The state of one sync, with the digest and token of the row that it describes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncState {
    /// Name of the sync.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// The digest of the row that this state describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// The token of the row that this state describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: Option<u64>,
    /// The commit that was last applied and became ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub commit: Option<String>,
    /// The state of the sync.
    pub state: SyncPhase,
    /// What a failure is attributed to: the revision, this cluster, or the infrastructure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// Whether the failure is permanent: retrying alone does not resolve it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Machine-readable reason for the state, in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: Option<String>,
    /// Human-readable details of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
    /// Progress of the sync, if one of its objects performs a rollout of its own and reports progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// State of the sync's plan, such as `update 2/3 schema/migrate InProgress`; absent if the sync has no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PLAN_LINE))]
    pub plan: Option<String>,
    /// The current run of the sync's plan, which manual plan actions refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_run: Option<PlanRunReport>,
    /// Objects that are assumed healthy without evidence from their controllers; set only if the sync succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed: Option<Assumed>,
}

impl Poolable for SyncState {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<SyncState> = Pool::new();
        &POOL
    }
}

impl SyncState {
    /// Remarks about a sync that succeeded: its message and the assumed health.
    pub fn success_message(&self) -> Option<String> {
        let assumed = self.assumed.as_ref().map(ToString::to_string);
        let parts: Vec<String> = self.message.iter().cloned().chain(assumed).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// The state of a sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncPhase {
    /// Applied and ready at the row's commit.
    Succeeded,
    /// Not applied, or not ready; `class` says what the failure is attributed to.
    Failed,
    /// In progress.
    #[default]
    Updating,
    /// The sync's objects are being removed.
    Withdrawing,
    /// The sync is removed.
    Withdrawn,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_that_cannot_be_read_takes_nothing_from_the_states() {
        for agent in [
            json!(7),
            json!({"version": 1}),
            json!(null),
            json!({"features": {}}),
        ] {
            let status = json!({"agent": agent, "syncs": [{"name": "web", "state": "succeeded"}]});
            let status: AssemblageStatus = serde_json::from_value(status).unwrap();
            assert_eq!((status.agent, status.syncs.len()), (None, 1));
        }
    }
}
