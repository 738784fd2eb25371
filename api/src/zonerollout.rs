//! `ZoneRollout`: how the StatefulSets of a rollout group are rolled and scaled, zone by zone; made by `muster zones`, one for each group.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{amount::Amount, duration::Duration, evidence::Progress, kind::kind, schema};

/// How many sets a group may have.
pub const MAX_SETS: usize = 64;
/// How many pods may be on their way out at once.
pub const MAX_IN_FLIGHT: usize = 1_024;
/// How many reasons a status names.
pub const MAX_REASONS: usize = 64;
/// The reason of `Stalled` that is about one set at one revision: [`ZoneSet::condemned`] says which.
pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
/// How long nothing may get better before a revision is condemned, unless `spec.progressDeadline` says otherwise.
pub const PROGRESS_DEADLINE: Duration = Duration::from_mins(10);

kind! {
    /// How the StatefulSets with one value of the label rollout-group are rolled and scaled, zone by zone. Made by muster zones; its spec is for people.
    ZoneRollout, "zonerollouts", "zr", crate::definition::columns::zone_rollout, ZoneRolloutSpec, ZoneRolloutStatus
}

/// What people may say of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.group == oldSelf.group", "message": "group cannot be changed: the ZoneRollout of another group is another object" },
]))]
pub struct ZoneRolloutSpec {
    /// The value of the label rollout-group.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub group: String,
    /// How long a zone must have been done before the next one is begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
    /// How long nothing may get better before a revision is condemned: 10m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<Duration>,
    /// How many pods of a zone may be unavailable, beside the annotation rollout-max-unavailable; the smaller one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Amount>,
    /// Whether nothing is rolled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// What status.revision says: a revision that was condemned is tried once more. With `.2` and so on behind it, again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub retry: Option<String>,
}

/// What is known of a group, and what is under way; written by muster zones alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneRolloutStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: whether all zones are done. Stalled: a revision was condemned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How many pods are Ready at the revision of their set, of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The sets, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_SETS))]
    pub sets: BTreeMap<String, ZoneSet>,
    /// The revisions of all sets as one: a hash, once they have stayed the same for five seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub revision: Option<String>,
    /// Revisions that are newer, and since when they are as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer: Option<NewerRevision>,
    /// The last spec.retry that was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub retried: Option<String>,
    /// What is under way in the group; nothing else begins before it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Pods that are on their way out by a deletion or an eviction of ours. Written before the deletion is sent, or the eviction is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_IN_FLIGHT), extend("x-kubernetes-list-type" = "atomic"))]
    pub in_flight: Vec<InFlight>,
    /// When each set was scaled down last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_SETS))]
    pub last_downscale: BTreeMap<String, Time>,
    /// When something got better last, while something is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressed: Option<Time>,
    /// Since when nothing has to get better: it is paused, or a zone soaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// Why each set, and each pod that is waited for, is where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_REASONS), extend("x-kubernetes-list-type" = "atomic"))]
    pub reasons: Vec<ZoneReason>,
}

/// Revisions of a group that may change yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewerRevision {
    /// Their hash.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub revision: String,
    /// Since when they are these.
    pub since: Time,
}

/// A set of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneSet {
    /// The set's uid.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// The revision of its template.
    #[schemars(length(max = schema::MAX_NAME))]
    pub update_revision: String,
    /// Whether each of its pods was Ready at that revision.
    #[serde(default)]
    pub done: bool,
    /// Since when it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_since: Option<Time>,
    /// Whether that revision was condemned: nothing got better for as long as it may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub condemned: bool,
}

/// What one thing at a time is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperationKind {
    /// Pods are replaced.
    Rolling,
    /// Replicas are taken away.
    Downscaling,
}

/// What is under way in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// What is done.
    pub kind: OperationKind,
    /// The set that it is done to.
    #[schemars(length(max = schema::MAX_NAME))]
    pub set: String,
    /// The set's uid.
    #[serde(rename = "setUID")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub set_uid: String,
    /// Replicas before a downscale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// Replicas after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// The generation of the set before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The reviews that it was begun by, or joined.
    #[serde(default, rename = "admissionUIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SETS), inner(length(max = schema::MAX_LABEL)), extend("x-kubernetes-list-type" = "atomic"))]
    pub admission_uids: Vec<String>,
    /// When a downscale that was allowed and not carried out is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
}

/// By what a pod is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Why {
    /// We delete it.
    Deletion,
    /// We allowed its eviction.
    Eviction,
}

/// A pod that is on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// Its name.
    #[schemars(length(max = schema::MAX_NAME))]
    pub pod: String,
    /// Its uid: a pod that was made again is another one.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub uid: String,
    /// Its set.
    #[schemars(length(max = schema::MAX_NAME))]
    pub set: String,
    /// Its resourceVersion, where it is deleted only as it is: it does not come up, and pods of other zones may be unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub resource_version: Option<String>,
    /// By what.
    pub why: Why,
    /// Since when.
    pub since: Time,
}

/// Why a set, or a pod, is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneReason {
    /// The set.
    #[schemars(length(max = schema::MAX_NAME))]
    pub set: String,
    /// The pod, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub pod: Option<String>,
    /// One word.
    #[schemars(length(max = schema::MAX_LABEL))]
    pub reason: String,
    /// The cause for people.
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}
