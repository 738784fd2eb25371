//! The input of decisions: the relevant fields of StatefulSets and pods.

pub mod annotations;
mod pod;
mod set;

use std::collections::BTreeMap;

use muster_api::labels::label::ROLLOUT_GROUP;
use muster_api::zonerollout::{ZoneRolloutSpec, ZoneRolloutStatus};

pub use self::{
    pod::{Container, Owner, Pod, ReadyCondition},
    set::{Disturbance, Set, SetStatus, Unavailable},
};

/// The annotation with the time since which a pod is ready, RFC 3339.
pub const READY_TIME_ANNOTATION: &str = "grafana.com/ready-time";

/// The StatefulSets with one value of the label `rollout-group`, their pods, and the group's record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The value of the label `rollout-group`; may be empty.
    pub name: String,
    /// The sets, sorted by the bytes of their names.
    pub sets: Vec<Set>,
    /// The user settings of the group: the spec of its ZoneRollout.
    pub spec: ZoneRolloutSpec,
    /// The recorded state: the status of its ZoneRollout.
    pub status: ZoneRolloutStatus,
}

impl Group {
    /// A group of sets with the pods that they own; other pods are ignored.
    pub fn new(name: &str, sets: impl IntoIterator<Item = Set>, pods: &[Pod]) -> Self {
        let mut sets: Vec<Set> = sets.into_iter().map(|set| set.with(pods)).collect();
        sets.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            name: name.to_owned(),
            sets,
            ..Self::default()
        }
    }

    /// The same group with its ZoneRollout.
    #[must_use]
    pub fn with(self, spec: ZoneRolloutSpec, status: ZoneRolloutStatus) -> Self {
        Self { spec, status, ..self }
    }

    /// The set with the given name.
    pub fn set(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| set.name == name)
    }

    /// Whether a recorded eviction or deletion of the pod is in progress.
    pub fn is_in_flight(&self, pod: &Pod) -> bool {
        self.status.in_flight.iter().any(|entry| entry.uid == pod.uid)
    }

    /// Why not all pods of a set are available, if so.
    pub fn disturbance(&self, set: &Set) -> Option<Disturbance> {
        set.disturbance(|pod| self.is_in_flight(pod))
    }

    /// Maximum number of unavailable pods of a set: the smaller of the limits in its annotation and the ZoneRollout, at
    /// least one.
    pub fn limit(&self, set: &Set) -> u32 {
        let annotated = annotations::max_unavailable(&set.annotations, set.desired());
        let spec_limit = self
            .spec
            .max_unavailable
            .map(|amount| amount.of(set.desired()).max(1));
        spec_limit.map_or(annotated, |limit| limit.min(annotated))
    }

    /// Whether pods of the set must not be changed.
    pub fn is_paused(&self, set: &Set) -> bool {
        self.spec.paused || annotations::is_paused(&set.annotations)
    }
}

/// Sets by group, sorted by name; sets without the label belong to no group.
pub fn groups(sets: Vec<Set>) -> BTreeMap<String, Vec<Set>> {
    let mut groups: BTreeMap<String, Vec<Set>> = BTreeMap::new();
    for set in sets {
        if let Some(group) = set.labels.get(ROLLOUT_GROUP).cloned() {
            groups.entry(group).or_default().push(set);
        }
    }
    for sets in groups.values_mut() {
        sets.sort_by(|a, b| a.name.cmp(&b.name));
    }
    groups
}
