//! The `rollout` settings of a module.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{amount::Amount, duration::Duration, schema, sync::LocalReference};

/// How a module's revision rolls over its clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// Incremental: a few clusters at a time, as maxUnreadyClusters says. Replace: all at once.
    pub strategy: Strategy,
    /// How many clusters may be changing or not ready because of this module: a count, or a percentage of the selected, eligible clusters (rounded down, at least 1 when above 0). 0 moves nothing.
    pub max_unready_clusters: Amount,
    /// How long, in seconds, a cluster must have been ready before it counts as confirmed.
    #[schemars(range(max = 86_400))]
    pub min_ready_seconds: u32,
    /// Growing batches instead of one cluster after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// A label key: clusters that are changing at the same time share one value of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL_KEY))]
    pub exclusive: Option<String>,
    /// Stages, one after the other; a cluster belongs to the first whose selector matches it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<Stage>,
    /// What becomes of clusters that no stage selects: Last (after all stages) or Exclude.
    pub unmatched: Unmatched,
    /// What happens when clusters fail.
    #[schemars(extend("default" = {}))]
    pub on_failure: OnFailure,
    /// How long a cluster may take.
    #[schemars(extend("default" = {}))]
    pub deadlines: Deadlines,
    /// What an unreachable cluster means: Skip (its turn comes when it is back), Wait (it keeps its slot), Fail (it counts as failed).
    pub on_unreachable: OnUnreachable,
    /// What a cluster that joins during a rollout gets first: LastGood or Target.
    pub on_join: OnJoin,
    /// How clusters that are no longer selected are withdrawn from.
    #[schemars(extend("default" = {}))]
    pub withdraw: WithdrawLimits,
    /// Start nothing new; what has begun may finish.
    pub paused: bool,
    /// How many ModuleRevisions are kept.
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

/// How clusters follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// All at once, without a limit.
    Replace,
    /// Within `maxUnreadyClusters`.
    #[default]
    Incremental,
}

/// Batches that grow while all goes well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Batch {
    /// The size of the first batch.
    #[schemars(range(min = 1, max = 100_000))]
    pub start: u32,
    /// How many times as large as the last the next batch is.
    #[schemars(range(min = 1, max = 100))]
    pub factor: u32,
    /// The largest batch.
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

/// Clusters that are done together, before the next stage begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// The stage's name, for statuses and approvals.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
    /// Which clusters belong to the stage.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// A narrower limit within this stage; it never widens the module's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unready_clusters: Option<Amount>,
    /// How long the stage is watched after its last cluster was confirmed.
    #[serde(default)]
    pub soak: Duration,
    /// Whether a person must approve before the next stage.
    #[serde(default)]
    pub approval: Approval,
    /// What must hold before the next stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub gates: Vec<Gate>,
}

/// Whether a person must approve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// No.
    #[default]
    None,
    /// By the annotation `fleet.muster.dev/approve`.
    Required,
}

/// Something measured before the next stage begins: exactly one of http and condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.http) != has(self.condition)", "message": "set exactly one of http and condition" },
    { "rule": "duration(self.interval) >= duration('1s') && duration(self.interval) <= duration('24h')", "message": "interval must be from 1s to 24h", "fieldPath": ".interval" },
    { "rule": "duration(self.timeout) >= duration('100ms') && duration(self.timeout) <= duration('1m')", "message": "timeout must be from 100ms to 1m", "fieldPath": ".timeout" },
]))]
pub struct Gate {
    /// A value read over HTTPS, such as a Prometheus instant query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpGate>,
    /// A condition of an object of this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionGate>,
    /// How often it is evaluated: from the begin of one reading to the begin of the next.
    #[serde(default = "one_minute")]
    pub interval: Duration,
    /// How many times in a row it must hold.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    pub passes: u32,
    /// How long one evaluation may take.
    #[serde(default = "ten_seconds")]
    pub timeout: Duration,
    /// What no data means. Wait: it says nothing. Fail: it is as bad as a reading that does not hold.
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
    /// What is read, by GET. Only hosts that the controller was started with (--gate-hosts) are asked; redirects are not followed.
    #[schemars(length(min = 1, max = schema::MAX_URL))]
    pub url: String,
    /// A Secret of this namespace with credentials for it: token, or username and password; and ca.crt, if the host's certificate is of an authority of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Where in the JSON answer the value is: a JSONPath (RFC 9535), such as $.data.result[0].value[1]. If it picks several values, all must hold; if none, there is no data.
    #[schemars(length(min = 1, max = schema::MAX_PATH), regex(pattern = "^[$]"))]
    pub json_path: String,
    /// How the value is compared: as a number where both are numbers (also a number in a string), else as text.
    pub op: GateOperator,
    /// What it is compared with; a number where op is an order.
    #[schemars(length(max = 256))]
    pub value: String,
}

/// How a gate compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GateOperator {
    /// Equal.
    #[serde(rename = "==")]
    Equal,
    /// Not equal.
    #[serde(rename = "!=")]
    NotEqual,
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// Less or equal.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// Greater.
    #[serde(rename = ">")]
    Greater,
    /// Greater or equal.
    #[serde(rename = ">=")]
    GreaterOrEqual,
}

impl GateOperator {
    /// As it is written.
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

    /// Whether it compares numbers only.
    pub const fn is_order(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

impl fmt::Display for GateOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition of an object of this namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.kind != 'Secret'", "message": "Secrets are not read by gates", "fieldPath": ".kind" },
]))]
pub struct ConditionGate {
    /// The object's apiVersion.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// The object's kind: ConfigMap, Cluster, or one that the controller was started with (--binding-kinds).
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// The object's name.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// The condition's type.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub type_: String,
    /// The status that it must have.
    #[serde(default = "status_true")]
    pub status: ConditionStatus,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known.
    Unknown,
}

/// What a gate without data means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnNoData {
    /// Ask again.
    #[default]
    Wait,
    /// As if it did not hold.
    Fail,
}

/// What becomes of clusters that no stage selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unmatched {
    /// They come after all stages.
    #[default]
    Last,
    /// They are left out.
    Exclude,
}

/// What happens when clusters fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OnFailure {
    /// Halt: nothing new is started. Revert: clusters that have the revision go back to the last good one. Continue: only record.
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
    /// Nothing new is started.
    #[default]
    Halt,
    /// Clusters that have it go back to the last good revision.
    Revert,
    /// It is recorded, and goes on.
    Continue,
}

/// How long a cluster may take, counted on time that it was eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deadlines {
    /// From assignment to acknowledgement by the cluster.
    pub pickup: Duration,
    /// From acknowledgement to confirmation; while objects report that their own steps get done, from one step to the next.
    pub progress: Duration,
    /// How long a cluster that became ineligible keeps its slot.
    pub absence: Duration,
    /// From acknowledgement to confirmation, however many steps are reported as done meanwhile. Absent: as long as it gets on.
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

/// What an unreachable cluster means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnUnreachable {
    /// Its turn comes when it is back.
    #[default]
    Skip,
    /// It keeps its slot.
    Wait,
    /// It counts as failed.
    Fail,
}

/// What a cluster that joins during a rollout gets first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnJoin {
    /// The last good revision, if there is one; then its turn.
    #[default]
    LastGood,
    /// The target, in its turn.
    Target,
}

/// How clusters that are no longer selected are withdrawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WithdrawLimits {
    /// How many clusters are withdrawn from at once: a count, or a percentage (at least 1).
    pub max: Amount,
    /// One change that deselects more than this, and more than one cluster, withdraws nothing until it is acknowledged.
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
