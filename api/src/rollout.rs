//! The `rollout` settings of a module.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{amount::Amount, duration::Duration, schema, sync::LocalReference};

/// How a module's revision is rolled out to its clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// Incremental: a few clusters at a time, limited by maxUnreadyClusters. Replace: all clusters at once.
    pub strategy: Strategy,
    /// How many clusters may be changing or not ready because of this module: a count, or a percentage of the selected,
    /// eligible clusters (rounded down, at least 1 when above 0). With 0 no change starts.
    pub max_unready_clusters: Amount,
    /// How long, in seconds, a cluster must have been ready before it counts as confirmed.
    #[schemars(range(max = 86_400))]
    pub min_ready_seconds: u32,
    /// Changes clusters in batches of growing size instead of one at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// A label key: clusters that change at the same time must have the same value of this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL_KEY))]
    pub exclusive: Option<String>,
    /// Stages that are rolled out in order; a cluster belongs to the first stage whose selector matches it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<Stage>,
    /// How clusters that no stage selects are treated: Last (changed after all stages) or Exclude.
    pub unmatched: Unmatched,
    /// What happens when clusters fail.
    #[schemars(extend("default" = {}))]
    pub on_failure: OnFailure,
    /// Deadlines for the change of a cluster.
    #[schemars(extend("default" = {}))]
    pub deadlines: Deadlines,
    /// How an unreachable cluster is treated: Skip (it is changed once it is reachable again), Wait (it keeps its
    /// slot), Fail (it counts as failed).
    pub on_unreachable: OnUnreachable,
    /// What a cluster that joins during a rollout gets first: LastGood or Target.
    pub on_join: OnJoin,
    /// Limits for withdrawing from clusters that are no longer selected.
    #[schemars(extend("default" = {}))]
    pub withdraw: WithdrawLimits,
    /// Pauses the rollout: no new changes start, those in progress may finish.
    pub paused: bool,
    /// Number of ModuleRevisions to keep.
    #[schemars(range(min = 1, max = 100))]
    pub history_limit: u32,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            strategy: Strategy::Incremental,
            max_unready_clusters: Amount::Count(1),
            min_ready_seconds: 0,
            batch: None,
            exclusive: None,
            stages: Vec::new(),
            unmatched: Unmatched::Last,
            on_failure: OnFailure::default(),
            deadlines: Deadlines::default(),
            on_unreachable: OnUnreachable::Skip,
            on_join: OnJoin::LastGood,
            withdraw: WithdrawLimits::default(),
            paused: false,
            history_limit: 10,
        }
    }
}

/// How many clusters change at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// All at once, without a limit.
    Replace,
    /// Within `maxUnreadyClusters`.
    #[default]
    Incremental,
}

/// Batches that grow while no failures occur.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Batch {
    /// Number of clusters in the first batch.
    #[schemars(range(min = 1, max = 100_000))]
    pub start: u32,
    /// Factor by which each batch is larger than the previous one.
    #[schemars(range(min = 1, max = 100))]
    pub factor: u32,
    /// Maximum number of clusters in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max: Option<u32>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            start: 1,
            factor: 2,
            max: None,
        }
    }
}

/// Clusters that are changed together, before the next stage starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// Name of the stage, used in statuses and approvals.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
    /// Selects the clusters of the stage by their labels.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// A stricter limit within this stage; it never raises the limit of the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unready_clusters: Option<Amount>,
    /// How long the stage is observed after its last cluster is confirmed.
    #[serde(default)]
    pub soak: Duration,
    /// Whether manual approval is required before the next stage.
    #[serde(default)]
    pub approval: Approval,
    /// Gates that must pass before the next stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub gates: Vec<Gate>,
}

/// Whether manual approval is required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// No approval is required.
    #[default]
    None,
    /// Approval by the annotation `fleet.muster.dev/approve` is required.
    Required,
}

/// A measurement that must pass before the next stage starts: exactly one of http and condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.http) != has(self.condition)", "message": "set exactly one of http and condition" },
    { "rule": "duration(self.interval) >= duration('1s') && duration(self.interval) <= duration('24h')", "message": "interval must be from 1s to 24h", "fieldPath": ".interval" },
    { "rule": "duration(self.timeout) >= duration('100ms') && duration(self.timeout) <= duration('1m')", "message": "timeout must be from 100ms to 1m", "fieldPath": ".timeout" },
]))]
pub struct Gate {
    /// Reads a value over HTTPS, such as a Prometheus instant query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpGate>,
    /// Reads a condition of an object in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionGate>,
    /// How often the gate is evaluated: the time from the start of one evaluation to the start of the next.
    #[serde(default = "one_minute")]
    pub interval: Duration,
    /// How many consecutive evaluations must pass.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    pub passes: u32,
    /// Timeout of one evaluation.
    #[serde(default = "ten_seconds")]
    pub timeout: Duration,
    /// How an evaluation without data is treated. Wait: it is ignored. Fail: it counts as failed.
    #[serde(default)]
    pub on_no_data: OnNoData,
}

/// A value read over HTTPS and compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.url.startsWith('https://') || self.url.startsWith('http://')", "message": "url must begin with https:// (http:// only where the controller allows insecure sources)", "fieldPath": ".url" },
    {
        "rule": "self.op in ['==', '!='] || self.value.matches('^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$')",
        "message": "value must be a number where op is <, <=, > or >=", "fieldPath": ".value",
    },
]))]
pub struct HttpGate {
    /// URL that is read with GET. Only hosts that are allowed by the controller's --gate-hosts flag are queried;
    /// redirects are not followed.
    #[schemars(length(min = 1, max = schema::MAX_URL))]
    pub url: String,
    /// A Secret in this namespace with credentials for the URL: token, or username and password; and ca.crt, if the
    /// host's certificate is signed by a private CA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Where the value is in the JSON response: a JSONPath (RFC 9535), such as $.data.result[0].value[1]. If it matches
    /// several values, all must pass; if none, there is no data.
    #[schemars(length(min = 1, max = schema::MAX_PATH), regex(pattern = "^[$]"))]
    pub json_path: String,
    /// Comparison operator. Values are compared as numbers if both are numbers (including numbers in strings),
    /// otherwise as text.
    pub op: GateOperator,
    /// The value to compare with; must be a number for <, <=, > and >=.
    #[schemars(length(max = 256))]
    pub value: String,
}

/// Comparison operator of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GateOperator {
    /// Equal.
    #[serde(rename = "==")]
    Equal,
    /// Not equal.
    #[serde(rename = "!=")]
    NotEqual,
    /// Less than.
    #[serde(rename = "<")]
    Less,
    /// Less than or equal.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// Greater than.
    #[serde(rename = ">")]
    Greater,
    /// Greater than or equal.
    #[serde(rename = ">=")]
    GreaterOrEqual,
}

impl GateOperator {
    /// The operator as written in the spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Whether the operator compares only numbers.
    pub const fn is_order(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

impl fmt::Display for GateOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition of an object in this namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.kind != 'Secret'", "message": "Secrets are not read by gates", "fieldPath": ".kind" },
]))]
pub struct ConditionGate {
    /// apiVersion of the object.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// Kind of the object: ConfigMap, Cluster, or a kind that is allowed by the controller's --binding-kinds flag.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub type_: String,
    /// The status that the condition must have.
    #[serde(default = "status_true")]
    pub status: ConditionStatus,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// The status is not known.
    Unknown,
}

/// How an evaluation without data is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnNoData {
    /// The evaluation is ignored, and repeated.
    #[default]
    Wait,
    /// The evaluation counts as failed.
    Fail,
}

/// How clusters that no stage selects are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unmatched {
    /// They are changed after all stages.
    #[default]
    Last,
    /// They are not changed.
    Exclude,
}

/// What happens when clusters fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OnFailure {
    /// Halt: no new changes start. Revert: clusters that have the revision go back to the last good one. Continue:
    /// failures are only recorded.
    pub action: FailureAction,
    /// How many clusters may fail before the revision is condemned: a count, or a percentage.
    pub max_failed: Amount,
}

impl Default for OnFailure {
    fn default() -> Self {
        Self {
            action: FailureAction::Halt,
            max_failed: Amount::Count(0),
        }
    }
}

/// What happens to a condemned revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailureAction {
    /// No new changes start.
    #[default]
    Halt,
    /// Clusters that have the revision go back to the last good revision.
    Revert,
    /// The failure is recorded, and the rollout continues.
    Continue,
}

/// How long a cluster may take, counting only time during which it is eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deadlines {
    /// Time from assignment to acknowledgement by the cluster.
    pub pickup: Duration,
    /// Time from acknowledgement to confirmation; if objects report progress, the time from one completed step to the
    /// next.
    pub progress: Duration,
    /// How long a cluster that became ineligible keeps its slot.
    pub absence: Duration,
    /// Time from acknowledgement to confirmation, regardless of reported progress. Absent: no limit while the cluster
    /// makes progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Duration>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            pickup: Duration::from_mins(5),
            progress: Duration::from_mins(10),
            absence: Duration::from_mins(5),
            total: None,
        }
    }
}

/// How an unreachable cluster is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnUnreachable {
    /// The cluster is changed once it is reachable again.
    #[default]
    Skip,
    /// The cluster keeps its slot.
    Wait,
    /// The cluster counts as failed.
    Fail,
}

/// What a cluster that joins during a rollout gets first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnJoin {
    /// The last good revision, if there is one; the target follows in the normal order.
    #[default]
    LastGood,
    /// The target revision, in the normal order.
    Target,
}

/// Limits for withdrawing from clusters that are no longer selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WithdrawLimits {
    /// From how many clusters the module is withdrawn at once: a count, or a percentage (at least 1).
    pub max: Amount,
    /// If one change deselects more clusters than this, and more than one, nothing is withdrawn until the change is
    /// acknowledged.
    pub brake: Amount,
}

impl Default for WithdrawLimits {
    fn default() -> Self {
        Self {
            max: Amount::Percent(10),
            brake: Amount::Percent(20),
        }
    }
}

const fn one_minute() -> Duration {
    Duration::from_mins(1)
}

const fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

const fn one() -> u32 {
    1
}

const fn status_true() -> ConditionStatus {
    ConditionStatus::True
}
