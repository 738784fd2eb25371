//! `ClusterUpgrade`: a Kubernetes version, and how it rolls over Clusters of Cluster API.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    amount::Amount,
    control_status::ControlStatus,
    duration::Duration,
    kind::kind,
    module::{Attention, ReasonGroup, RolloutStatus, Summary},
    rollout::{
        Approval, Batch, Deadlines, FailureAction, OnFailure, OnJoin, OnUnreachable, Rollout, Stage,
        Unmatched,
    },
    schema,
};

kind! {
    /// A Kubernetes version for Clusters of this namespace: cluster by cluster, each confirmed by its conditions and by what its own API server reports. Only Clusters with the annotation fleet.muster.dev/upgrades=muster are changed.
    ClusterUpgrade, "clusterupgrades", "cup", crate::definition::columns::cluster_upgrade, ClusterUpgradeSpec, ClusterUpgradeStatus
}

/// Which Clusters get which version, and how it rolls over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpgradeSpec {
    /// Which Clusters: a selector over their labels. Absent: none. Empty ({}): all that have the annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// What they get.
    pub target: UpgradeTarget,
    /// What is changed of a Cluster without a topology: the control plane first, then the workers. Of one with a topology Cluster API changes both in its own order.
    #[serde(default = "everything")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub what: Vec<UpgradePart>,
    /// What becomes of a Cluster of which not everything could be read before it is changed. Strict: it waits. BestEffort: what could not be read counts as good.
    #[serde(default)]
    pub preflight: Preflight,
    /// How the version rolls over the Clusters.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub rollout: UpgradeRollout,
    /// Do nothing at all with this ClusterUpgrade. Clusters that were told to change go on changing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// What Clusters get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeTarget {
    /// The version, such as v1.34.2, as Cluster API has it.
    #[schemars(length(min = 6, max = 64), regex(pattern = VERSION))]
    pub kubernetes: String,
}

/// `v1.34.2`, and what distributions append to it.
const VERSION: &str =
    "^v(0|[1-9][0-9]{0,4})[.](0|[1-9][0-9]{0,4})[.](0|[1-9][0-9]{0,4})([-+][0-9A-Za-z.+-]+)?$";

/// A part of a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum UpgradePart {
    /// The object that spec.controlPlaneRef names.
    ControlPlane,
    /// MachineDeployments and MachinePools.
    Workers,
}

/// What becomes of a Cluster of which not everything could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Preflight {
    /// It waits.
    #[default]
    Strict,
    /// What could not be read counts as good.
    BestEffort,
}

/// How a version rolls over Clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeRollout {
    /// How many Clusters may be changing: a count, or a percentage of the selected, eligible Clusters (rounded down, at least 1 when above 0). 0 moves nothing.
    pub max_unready_clusters: Amount,
    /// How long, in seconds, a Cluster must have been ready before it counts as confirmed.
    #[schemars(range(max = 86_400))]
    pub min_ready_seconds: u32,
    /// Growing batches instead of one Cluster after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// A label key: Clusters that are changing at the same time share one value of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL_KEY))]
    pub exclusive: Option<String>,
    /// Stages, one after the other; a Cluster belongs to the first whose selector matches it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<UpgradeStage>,
    /// What becomes of Clusters that no stage selects: Last (after all stages) or Exclude.
    pub unmatched: Unmatched,
    /// What happens when Clusters fail.
    #[schemars(extend("default" = {}))]
    pub on_failure: UpgradeFailure,
    /// How long a Cluster may take; progress is counted anew with each Machine that becomes up to date.
    #[schemars(extend("default" = {}))]
    pub deadlines: UpgradeDeadlines,
    /// What an unreachable Cluster means while it is changing: Skip (its slot is free after deadlines.absence), Wait (it keeps its slot), Fail (it counts as failed).
    #[serde(default = "wait")]
    #[schemars(extend("default" = "Wait"))]
    pub on_unreachable: OnUnreachable,
    /// Start nothing new; what has begun may finish.
    pub paused: bool,
}

impl Default for UpgradeRollout {
    fn default() -> Self {
        Self {
            max_unready_clusters: Amount::Count(1),
            min_ready_seconds: 0,
            batch: None,
            exclusive: None,
            stages: Vec::new(),
            unmatched: Unmatched::Last,
            on_failure: UpgradeFailure::default(),
            deadlines: UpgradeDeadlines::default(),
            on_unreachable: wait(),
            paused: false,
        }
    }
}

/// Clusters that are done together, before the next stage begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStage {
    /// The stage's name, for statuses and approvals.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
    /// Which Clusters belong to the stage.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// A narrower limit within this stage; it never widens that of the ClusterUpgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unready_clusters: Option<Amount>,
    /// How long the stage is watched after its last Cluster was confirmed.
    #[serde(default)]
    pub soak: Duration,
    /// Whether a person must approve before the next stage.
    #[serde(default)]
    pub approval: Approval,
}

/// What happens when Clusters fail. A version is never taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeFailure {
    /// Halt: nothing new is started. Continue: only record.
    pub action: UpgradeFailureAction,
    /// How many Clusters may fail before the rollout halts: a count, or a percentage.
    pub max_failed: Amount,
}

impl Default for UpgradeFailure {
    fn default() -> Self {
        Self {
            action: UpgradeFailureAction::Halt,
            max_failed: Amount::Count(0),
        }
    }
}

/// What happens after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeFailureAction {
    /// Nothing new is started.
    #[default]
    Halt,
    /// It is recorded, and the rollout goes on.
    Continue,
}

/// How long a Cluster may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeDeadlines {
    /// Until Cluster API has observed the new version.
    pub pickup: Duration,
    /// Until another Machine is up to date, or the Cluster is confirmed.
    pub progress: Duration,
    /// How long a Cluster may be away, with onUnreachable Skip, before its slot is free.
    pub absence: Duration,
}

impl Default for UpgradeDeadlines {
    fn default() -> Self {
        Self {
            pickup: Duration::from_mins(10),
            progress: Duration::from_hours(2),
            absence: Deadlines::default().absence,
        }
    }
}

/// What was observed of a ClusterUpgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpgradeStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready always; Reconciling, Stalled, Paused and Halted only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How it stands, for the column STATUS of kubectl get: the reason of Ready, and Paused and Held where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub state: Option<String>,
    /// The targeted revision: the hash of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The Clusters in numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Why each Cluster is where it is: every reason with all of its Clusters, in the order of precedence. A Cluster in none is not selected, or lacks the annotation fleet.muster.dev/upgrades=muster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"]))]
    pub reasons: Vec<ReasonGroup>,
    /// The Clusters that need attention, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub attention: Vec<Attention>,
    /// The annotations paused and hold, here and on Clusters, and what came of each: first what has no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub controls: Vec<ControlStatus>,
    /// Clusters, by folded names, that are confirmed without a word of their own API server: it does not serve /version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub assumed: Option<String>,
    /// What the rollout engine remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
}

fn everything() -> Vec<UpgradePart> {
    vec![UpgradePart::ControlPlane, UpgradePart::Workers]
}

const fn wait() -> OnUnreachable {
    OnUnreachable::Wait
}

/// The settings that upgrades and modules share, under the names that modules have for them.
impl From<&UpgradeRollout> for Rollout {
    fn from(upgrade: &UpgradeRollout) -> Self {
        let UpgradeRollout {
            max_unready_clusters,
            min_ready_seconds,
            batch,
            exclusive,
            stages,
            unmatched,
            on_failure,
            deadlines,
            on_unreachable,
            paused,
        } = upgrade.clone();
        Self {
            max_unready_clusters,
            min_ready_seconds,
            batch,
            exclusive,
            stages: stages.into_iter().map(Into::into).collect(),
            unmatched,
            on_failure: OnFailure {
                action: match on_failure.action {
                    UpgradeFailureAction::Halt => FailureAction::Halt,
                    UpgradeFailureAction::Continue => FailureAction::Continue,
                },
                max_failed: on_failure.max_failed,
            },
            deadlines: Deadlines {
                pickup: deadlines.pickup,
                progress: deadlines.progress,
                absence: deadlines.absence,
                total: None,
            },
            on_unreachable,
            // An older version is never given to a Cluster that joins.
            on_join: OnJoin::Target,
            paused,
            ..Self::default()
        }
    }
}

impl From<UpgradeStage> for Stage {
    fn from(of: UpgradeStage) -> Self {
        let UpgradeStage {
            name,
            selector,
            max_unready_clusters,
            soak,
            approval,
        } = of;
        Self {
            name,
            selector,
            max_unready_clusters,
            soak,
            approval,
            gates: Vec::new(),
        }
    }
}
