//! `ZoneRollout`: how the StatefulSets of a rollout group are rolled out and scaled, zone by zone; created by `muster
//! zones`, one for each group.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{amount::Amount, duration::Duration, evidence::Progress, kind::kind, schema};

/// Maximum number of StatefulSets in a group.
pub const MAX_SETS: usize = 64;
/// Maximum number of pods that may be in flight at once.
pub const MAX_IN_FLIGHT: usize = 1_024;
/// Maximum number of reasons in a status.
pub const MAX_REASONS: usize = 64;
/// The reason of `Stalled` if one StatefulSet is stalled at one revision: [`ZoneSet::condemned`] says which.
pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
/// Default of `spec.progressDeadline`: how long a rollout may make no progress before the revision is condemned.
pub const PROGRESS_DEADLINE: Duration = Duration::from_mins(10);

kind! {
    /// Controls how the StatefulSets with one value of the label rollout-group are rolled out and scaled, zone by zone.
    /// Created by muster zones; the spec may be edited by users.
    ZoneRollout, "zonerollouts", "zr", crate::definition::columns::zone_rollout_columns, ZoneRolloutSpec, ZoneRolloutStatus
}

/// User settings for a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.group == oldSelf.group", "message": "group is immutable: create another ZoneRollout for another group" },
]))]
pub struct ZoneRolloutSpec {
    /// The value of the label rollout-group.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub group: String,
    /// How long a zone must have been complete before the next zone starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
    /// How long the rollout may make no progress before the revision is condemned: 10m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<Duration>,
    /// Maximum number of unavailable pods in a zone, in addition to the annotation rollout-max-unavailable; the smaller
    /// value applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Amount>,
    /// Whether rollouts of the group are paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// A copy of status.revision: a condemned revision is tried again. For further retries append `.2` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub retry: Option<String>,
}

/// Observed state of a group, and the operation in progress; written only by muster zones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneRolloutStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready is true if all zones are complete. Stalled is true if a revision is condemned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Number of pods that are Ready at the revision of their StatefulSet, out of all pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The StatefulSets of the group, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_SETS))]
    pub sets: BTreeMap<String, ZoneSet>,
    /// A hash of the revisions of all StatefulSets, set once they have not changed for five seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub revision: Option<String>,
    /// Newer revisions that have not been stable for long enough, and the time of their last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer: Option<NewerRevision>,
    /// The last value of spec.retry that was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub retried: Option<String>,
    /// The operation in progress in the group; no other operation starts before it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Pods that are being deleted by muster, or whose eviction muster has allowed. An entry is written before the
    /// deletion is sent or the eviction is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_IN_FLIGHT), extend("x-kubernetes-list-type" = "atomic"))]
    pub in_flight: Vec<InFlight>,
    /// When each StatefulSet was last scaled down.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_SETS))]
    pub last_downscale: BTreeMap<String, Time>,
    /// When the current operation last made progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressed: Option<Time>,
    /// Since when no progress is expected, because the rollout is paused or a zone is soaking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// Reasons for the states of StatefulSets, and of pods that are waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_REASONS), extend("x-kubernetes-list-type" = "atomic"))]
    pub reasons: Vec<ZoneReason>,
}

/// Revisions of a group that may still change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewerRevision {
    /// The hash of the revisions.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub revision: String,
    /// When the revisions last changed.
    pub since: Time,
}

/// State of one StatefulSet of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneSet {
    /// The uid of the StatefulSet.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// The revision of the StatefulSet's template.
    #[schemars(length(max = schema::MAX_NAME))]
    pub update_revision: String,
    /// Whether all of its pods have been Ready at that revision.
    #[serde(default)]
    pub done: bool,
    /// When the StatefulSet became done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_since: Option<Time>,
    /// Whether that revision is condemned: it made no progress within the deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub condemned: bool,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperationKind {
    /// Pods are replaced.
    Rolling,
    /// Replicas are removed.
    Downscaling,
}

/// The operation in progress in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Name of the StatefulSet.
    #[schemars(length(max = schema::MAX_NAME))]
    pub set: String,
    /// The uid of the StatefulSet.
    #[serde(rename = "setUID")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub set_uid: String,
    /// Number of replicas before a downscale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// Number of replicas after a downscale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// The generation of the StatefulSet before the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// UIDs of the admission requests that started or joined the operation.
    #[serde(default, rename = "admissionUIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SETS), inner(length(max = schema::MAX_LABEL)), extend("x-kubernetes-list-type" = "atomic"))]
    pub admission_uids: Vec<String>,
    /// When a downscale that was allowed but not performed is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
}

/// Why a pod is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Why {
    /// muster deletes the pod.
    Deletion,
    /// muster allowed the eviction of the pod.
    Eviction,
}

/// A pod that is being deleted or evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// Name of the pod.
    #[schemars(length(max = schema::MAX_NAME))]
    pub pod: String,
    /// The uid of the pod, to distinguish it from a re-created pod of the same name.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// Name of the pod's StatefulSet.
    #[schemars(length(max = schema::MAX_NAME))]
    pub set: String,
    /// The resourceVersion of the pod, if it must be unchanged when it is deleted: the pod does not become ready, and
    /// pods in other zones may be unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub resource_version: Option<String>,
    /// Why the pod is in flight.
    pub why: Why,
    /// When the pod was put in flight.
    pub since: Time,
}

/// The reason for the state of a StatefulSet or a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneReason {
    /// Name of the StatefulSet.
    #[schemars(length(max = schema::MAX_NAME))]
    pub set: String,
    /// Name of the pod, if the reason is about a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub pod: Option<String>,
    /// Machine-readable reason, in CamelCase.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// Human-readable details.
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}
