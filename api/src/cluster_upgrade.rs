//! `ClusterUpgrade`: a Kubernetes version, and how it is rolled out to Clusters of Cluster API.

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
    /// Rolls out a Kubernetes version to Clusters of this namespace, Cluster by Cluster; each is confirmed by its
    /// conditions and by the version that its own API server reports. Only Clusters with the annotation
    /// fleet.muster.dev/upgrades=muster are changed.
    ClusterUpgrade, "clusterupgrades", "cup", crate::definition::columns::cluster_upgrade, ClusterUpgradeSpec, ClusterUpgradeStatus
}

/// Which Clusters get which version, and how it is rolled out to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpgradeSpec {
    /// Selects Clusters by their labels. Absent: none. Empty ({}): all that have the annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// The upgrade target.
    pub target: UpgradeTarget,
    /// Which parts of a Cluster without a topology are upgraded: the control plane first, then the workers. For a
    /// Cluster with a topology, Cluster API upgrades both in its own order.
    #[serde(default = "everything")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub what: Vec<UpgradePart>,
    /// How the preflight checks treat information about a Cluster that cannot be read. Strict: the Cluster waits.
    /// BestEffort: the check counts as passed.
    #[serde(default)]
    pub preflight: Preflight,
    /// How the version is rolled out to the Clusters.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub rollout: UpgradeRollout,
    /// Suspends this ClusterUpgrade. Clusters that are already changing continue to change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// What Clusters are upgraded to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeTarget {
    /// The Kubernetes version in the form that Cluster API uses, such as v1.34.2.
    #[schemars(length(min = 6, max = 64), regex(pattern = VERSION))]
    pub kubernetes: String,
}

/// `v1.34.2`, optionally with a suffix that a distribution adds.
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

/// How preflight checks treat information that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Preflight {
    /// The Cluster waits.
    #[default]
    Strict,
    /// The check counts as passed.
    BestEffort,
}

/// How a version is rolled out to Clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeRollout {
    /// How many Clusters may be changing at once: a count, or a percentage of the selected, eligible Clusters (rounded
    /// down, at least 1 when above 0). With 0 no upgrade starts.
    pub max_unready_clusters: Amount,
    /// How long, in seconds, a Cluster must have been ready before it counts as confirmed.
    #[schemars(range(max = 86_400))]
    pub min_ready_seconds: u32,
    /// Upgrades Clusters in batches of growing size instead of one at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// A label key: Clusters that change at the same time must have the same value of this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL_KEY))]
    pub exclusive: Option<String>,
    /// Stages that are rolled out in order; a Cluster belongs to the first stage whose selector matches it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<UpgradeStage>,
    /// How Clusters that no stage selects are treated: Last (upgraded after all stages) or Exclude.
    pub unmatched: Unmatched,
    /// What happens when Clusters fail.
    #[schemars(extend("default" = {}))]
    pub on_failure: UpgradeFailure,
    /// How long a Cluster may take; the progress deadline restarts with each Machine that becomes up to date.
    #[schemars(extend("default" = {}))]
    pub deadlines: UpgradeDeadlines,
    /// How a Cluster that becomes unreachable during its upgrade is treated: Skip (its slot is released after
    /// deadlines.absence), Wait (it keeps its slot), Fail (it counts as failed).
    #[serde(default = "wait")]
    #[schemars(extend("default" = "Wait"))]
    pub on_unreachable: OnUnreachable,
    /// Pauses the rollout: no new upgrades start, those in progress may finish.
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

/// Clusters that are upgraded together, before the next stage starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStage {
    /// Name of the stage, used in statuses and approvals.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
    /// Selects the Clusters of the stage by their labels.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// A stricter limit within this stage; it never raises the limit of the ClusterUpgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unready_clusters: Option<Amount>,
    /// How long the stage is observed after its last Cluster is confirmed.
    #[serde(default)]
    pub soak: Duration,
    /// Whether manual approval is required before the next stage.
    #[serde(default)]
    pub approval: Approval,
}

/// What happens when Clusters fail. A version is never rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeFailure {
    /// Halt: no new upgrades start. Continue: failures are only recorded.
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
    /// No new upgrades start.
    #[default]
    Halt,
    /// The failure is recorded, and the rollout continues.
    Continue,
}

/// How long a Cluster may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeDeadlines {
    /// Time until Cluster API has observed the new version.
    pub pickup: Duration,
    /// Time until another Machine is up to date, or the Cluster is confirmed.
    pub progress: Duration,
    /// How long a Cluster may be unreachable, with onUnreachable Skip, before its slot is released.
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

/// Observed state of a ClusterUpgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpgradeStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready is always present; Reconciling, Stalled, Paused and Halted only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Summary for the STATUS column of kubectl get: the reason of Ready, plus Paused and Held where they apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub state: Option<String>,
    /// The target revision: the hash of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Number of Clusters by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The reasons for the states of the Clusters: each reason with all its Clusters, in order of precedence. A Cluster
    /// that is listed under no reason is not selected, or lacks the annotation fleet.muster.dev/upgrades=muster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_REASONS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"]))]
    pub reasons: Vec<ReasonGroup>,
    /// The Clusters that need attention, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub attention: Vec<Attention>,
    /// The annotations paused and hold, on this object and on Clusters, and their effect; those without effect are
    /// listed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_ATTENTION), extend("x-kubernetes-list-type" = "atomic"))]
    pub controls: Vec<ControlStatus>,
    /// Clusters that are confirmed without a version report from their own API server, as it does not serve /version.
    /// Consecutive names are folded into ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub assumed: Option<String>,
    /// Persisted state of the rollout engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
}

fn everything() -> Vec<UpgradePart> {
    vec![UpgradePart::ControlPlane, UpgradePart::Workers]
}

const fn wait() -> OnUnreachable {
    OnUnreachable::Wait
}

/// The settings that upgrades and modules share, translated to the settings of modules.
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
            // A Cluster that joins never gets an older version.
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
