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
    /// The syncs of one cluster, mirrored into an Assemblage there. Written by Modules, or by any other rollout automation.
    ProxyAssemblage, "proxyassemblages", "pasm", crate::definition::columns::targeted_assemblage, TargetedAssemblageSpec, AssemblageStatus
}

kind! {
    /// The syncs of one cluster, applied from the management cluster. Written by BootstrapModules, or by any other automation.
    RemoteAssemblage, "remoteassemblages", "rasm", crate::definition::columns::targeted_assemblage, TargetedAssemblageSpec, AssemblageStatus
}

kind! {
    /// The syncs of this cluster. Written by muster's ProxyAssemblage controller from the management cluster.
    Assemblage, "assemblages", "asm", crate::definition::columns::assemblage, AssemblageSpec, AssemblageStatus
}

/// The syncs of one cluster, and which cluster it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.clusterRef) != has(self.kubeconfigRef)", "message": "set exactly one of clusterRef and kubeconfigRef" },
    {
        "rule": "has(self.clusterRef) == has(oldSelf.clusterRef) && (!has(self.clusterRef) || self.clusterRef.name == oldSelf.clusterRef.name)",
        "message": "clusterRef is immutable: the syncs of another cluster are another assemblage",
    },
    {
        "rule": "has(self.kubeconfigRef) == has(oldSelf.kubeconfigRef) && (!has(self.kubeconfigRef) || self.kubeconfigRef.name == oldSelf.kubeconfigRef.name)",
        "message": "kubeconfigRef is immutable: the syncs of another cluster are another assemblage",
    },
]))]
pub struct TargetedAssemblageSpec {
    /// The Cluster of this namespace that the syncs are for. Immutable: another cluster is another assemblage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<LocalReference>,
    /// A Secret of this namespace with a kubeconfig under the key value, for what is not a Cluster. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_ref: Option<LocalReference>,
    /// The syncs; their order has no meaning.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_SYNCS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub syncs: Vec<Shared<SyncRow>>,
}

/// The syncs of this cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssemblageSpec {
    /// The syncs; their order has no meaning.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_SYNCS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub syncs: Vec<Shared<SyncRow>>,
}

/// What an API server answers whose row has a greater token by now.
pub const TOKEN_NEVER_FALLS: &str = "a row's token never falls";

/// One sync of one cluster: something to carry out (source and package), something to withdraw (withdraw), or only its name and token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(oldSelf.token) || (has(self.token) && self.token >= oldSelf.token)",
        "message": "a row's token never falls: another writer changed the row; read it again",
    },
    { "rule": "!has(self.withdraw) || !has(self.source)", "message": "a row that is to be withdrawn has no source" },
    { "rule": "has(self.source) || !has(self.__package__)", "message": "a row with a package needs a source" },
    { "rule": "!has(self.source) || !has(self.source.git) || !has(self.source.git.verify)", "message": "verify stands in the source of a Module: a row has a commit that was verified" },
], "x-kubernetes-map-type" = "atomic"))]
// A row is written as a whole: that the API server tracks a manager for each field of each row would be a third of the object.
pub struct SyncRow {
    /// The sync's name: the module's, for rows of modules.
    #[schemars(length(min = 1, max = schema::MAX_NAME), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
    /// Where the configuration comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Which part of the source is applied, and how. Absent with a source: all of it, with the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Package>,
    /// Variables evaluated in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bindings: Vec<Binding>,
    /// Variables evaluated in the management cluster, for writers that leave this to the assemblage's controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub control_plane_bindings: Vec<Binding>,
    /// Control-plane bindings that are already resolved.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::variables")]
    pub values: BTreeMap<String, String>,
    /// The commit that the source's version stands for; of an OCI artifact the digits of its SHA-256 digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = schema::COMMIT))]
    pub commit: Option<String>,
    /// The revision of the writer's configuration, for people and history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The hash of what this cluster gets; echoed in status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// Grows with each change of mind of the writer, never falls; echoed in status. Optional for other automations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: Option<u64>,
    /// Grows with each retry of what failed here: a plan that failed runs again though its documents are the same. Not part of the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub attempt: Option<u64>,
    /// What is done to the runs of its plan by hand, once. Not part of the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_control: Option<PlanControl>,
    /// The sync is to be withdrawn: Prune removes its objects, Orphan leaves them.
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
    /// A row of name and token alone: a fence, or what is left of a withdrawn sync.
    pub fn bare(name: &str, token: u64) -> Self {
        Self {
            name: name.to_owned(),
            token: Some(token),
            ..Self::default()
        }
    }

    /// A row that asks for withdrawal.
    pub fn withdrawal(name: &str, token: u64, withdraw: Withdraw) -> Self {
        Self {
            withdraw: Some(withdraw),
            ..Self::bare(name, token)
        }
    }

    /// What the row asks for.
    pub const fn intent(&self) -> Intent<'_> {
        match (self.withdraw, &self.source) {
            (Some(how), _) => Intent::Withdraw(how),
            (None, Some(source)) => Intent::Carry { source },
            (None, None) => Intent::Bare,
        }
    }
}

/// What a row asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent<'a> {
    /// Carry the sync out.
    Carry {
        /// Where its configuration comes from.
        source: &'a Source,
    },
    /// Withdraw it.
    Withdraw(Withdraw),
    /// Nothing: the row holds the place of its token.
    Bare,
}

/// How a sync is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Withdraw {
    /// Its objects are removed.
    Prune,
    /// Its objects stay.
    Orphan,
}

impl Withdraw {
    /// What becomes of the objects, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prune => "objects are deleted",
            Self::Orphan => "objects are kept",
        }
    }
}

/// What was seen of the syncs of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssemblageStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready always; Reconciling and Stalled only while true; Reachable for ProxyAssemblages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When the cluster last answered; only while it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_contact: Option<Time>,
    /// What carries the syncs out there, by its own report. Absent: an agent that reports nothing of itself, and can do nothing that is
    /// newer than that.
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
    // A state that cannot be read says nothing. One writer: no manager is tracked for each field of each state.
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "atomic"))]
    pub syncs: Vec<Shared<SyncState>>,
    /// The last value of reconcile.fluxcd.io/requestedAt that was acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_handled_reconcile_at: Option<String>,
}

/// What an agent reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its version.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub version: String,
    /// What applies in its cluster: builtin or flux.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub sync: String,
    /// What rows may ask of it beyond what every agent can, by name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(schema_with = "schema::features")]
    pub features: BTreeSet<String>,
}

/// The state of one sync, with the digest and token of the row that it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncState {
    /// The sync's name.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// The row's digest, echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// The row's token, echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = schema::MAX_TOKEN))]
    pub token: Option<u64>,
    /// The commit that was last applied and became ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub commit: Option<String>,
    /// Where the sync stands.
    pub state: SyncPhase,
    /// Whose fault a failure is: the revision's, this cluster's, or the infrastructure's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// A failure that will not go away by waiting.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Why, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: Option<String>,
    /// How far it is, where one of its objects rolls something out itself and reports that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Where its plan stands, such as `update 2/3 schema/migrate InProgress`; only of a sync that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PLAN_LINE))]
    pub plan: Option<String>,
    /// The run of its plan: what a control by hand names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_run: Option<PlanRunReport>,
    /// Objects that were taken to be healthy without evidence from their controllers; only of a sync that succeeded.
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
    /// What is to be known of a sync that succeeded.
    pub fn note(&self) -> Option<String> {
        let assumed = self.assumed.as_ref().map(ToString::to_string);
        let parts: Vec<String> = self.message.iter().cloned().chain(assumed).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Where a sync stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncPhase {
    /// Applied and ready at the row's commit.
    Succeeded,
    /// Not applied, or not ready; `class` says whose fault.
    Failed,
    /// On the way.
    #[default]
    Updating,
    /// Its objects are being removed.
    Withdrawing,
    /// It is gone.
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
