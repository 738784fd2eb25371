//! Rows that decisions are made of: what matters of StatefulSets and pods.

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

/// The annotation that says since when a pod is ready, RFC 3339.
pub const READY_TIME_ANNOTATION: &str = "grafana.com/ready-time";

/// The StatefulSets with one value of the label `rollout-group`, their pods, and what is on record of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The value of the label; may be empty.
    pub name: String,
    /// The sets, by name, byte by byte.
    pub sets: Vec<Set>,
    /// What people say of the group.
    pub spec: ZoneRolloutSpec,
    /// What is on record.
    pub status: ZoneRolloutStatus,
}

impl Group {
    /// A group of sets with the pods that they own; pods of others are left out.
    pub fn new(name: &str, sets: impl IntoIterator<Item = Set>, pods: &[Pod]) -> Self {
        let mut sets: Vec<Set> = sets.into_iter().map(|set| set.with(pods)).collect();
        sets.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            name: name.to_owned(),
            sets,
            ..Self::default()
        }
    }

    /// The same with what is on record.
    #[must_use]
    pub fn with(self, spec: ZoneRolloutSpec, status: ZoneRolloutStatus) -> Self {
        Self { spec, status, ..self }
    }

    /// The set of this name.
    pub fn set(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| set.name == name)
    }

    /// Whether an eviction or a deletion of ours is under way for a pod.
    pub fn is_in_flight(&self, pod: &Pod) -> bool {
        self.status.in_flight.iter().any(|entry| entry.uid == pod.uid)
    }

    /// How far a set is from having all of its pods available, if it is.
    pub fn disturbance(&self, set: &Set) -> Option<Disturbance> {
        set.disturbance(|pod| self.is_in_flight(pod))
    }

    /// How many pods of a set may be unavailable: the smaller of what its annotation and the ZoneRollout say, at least one.
    pub fn limit(&self, set: &Set) -> u32 {
        let annotated = annotations::max_unavailable(&set.annotations, set.desired());
        let said = self
            .spec
            .max_unavailable
            .map(|amount| amount.of(set.desired()).max(1));
        said.map_or(annotated, |said| said.min(annotated))
    }

    /// Whether nothing may be done to the pods of a set.
    pub fn is_paused(&self, set: &Set) -> bool {
        self.spec.paused || annotations::is_paused(&set.annotations)
    }
}

/// Sets by group, in the order of their names; sets without the label are of none.
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
