//! A StatefulSet, reduced to the fields that decisions depend on.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Pod;
use crate::order::natural;

/// A StatefulSet: one zone of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; empty if absent.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.replicas`, if set.
    pub replicas: Option<u32>,
    /// `spec.serviceName`.
    pub service_name: String,
    /// `spec.ordinals.start`.
    pub start: u32,
    /// `spec.updateStrategy.type`.
    pub strategy: String,
    /// Status as reported by the StatefulSet controller.
    pub status: SetStatus,
    /// The pods that the set owns, in natural order, if they were added ([`Set::with`]).
    pub pods: Vec<Pod>,
}

/// The status of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetStatus {
    /// The generation that the status is about.
    pub observed_generation: i64,
    /// Number of existing pods.
    pub replicas: u32,
    /// Number of ready pods.
    pub ready_replicas: u32,
    /// Number of pods at `updateRevision`.
    pub updated_replicas: u32,
    /// The revision that all pods last had.
    pub current_revision: String,
    /// The revision of the current template.
    pub update_revision: String,
}

impl Set {
    /// Reads a StatefulSet as the API server returns it.
    pub fn from_value(value: &Value) -> Result<Self, serde_json::Error> {
        let raw = Raw::deserialize(value)?;
        Ok(Self {
            name: raw.metadata.name,
            uid: raw.metadata.uid,
            generation: raw.metadata.generation,
            labels: raw.metadata.labels.unwrap_or_default(),
            annotations: raw.metadata.annotations.unwrap_or_default(),
            replicas: raw.spec.replicas,
            service_name: raw.spec.service_name,
            start: raw.spec.ordinals.start,
            strategy: raw.spec.update_strategy.kind,
            status: raw.status,
            pods: Vec::new(),
        })
    }

    /// The same set with those of `pods` that it owns.
    #[must_use]
    pub fn with(mut self, pods: &[Pod]) -> Self {
        let mut owned: Vec<Pod> = pods.iter().filter(|pod| self.owns(pod)).cloned().collect();
        owned.sort_by(|a, b| natural(&a.name, &b.name));
        self.pods = owned;
        self
    }

    /// Desired number of pods. Kubernetes' default of `spec.replicas` is 1.
    pub fn desired(&self) -> u32 {
        self.replicas.unwrap_or(1)
    }

    /// Expected number of pods: the larger of the desired and the reported number (R11).
    pub fn expected_pods(&self) -> u32 {
        self.desired().max(self.status.replicas)
    }

    /// Whether the set controls the pod: by owner reference, never by labels (R15).
    pub fn owns(&self, pod: &Pod) -> bool {
        pod.controller.as_ref().is_some_and(|owner| {
            owner.kind == "StatefulSet" && owner.name == self.name && owner.uid == self.uid
        })
    }

    /// Whether the StatefulSet controller has observed the set's spec.
    pub fn is_observed(&self) -> bool {
        self.status.observed_generation >= self.generation
    }

    /// The name of the pod with the given index, counted from the first ordinal.
    fn pod_name(&self, index: u32) -> String {
        format!("{}-{}", self.name, u64::from(self.start) + u64::from(index))
    }

    /// The index of a pod, counted from the first ordinal; `None` for a name without an ordinal.
    pub fn replica(&self, pod: &Pod) -> Option<u32> {
        let ordinal = pod.name.strip_prefix(&self.name)?.strip_prefix('-')?;
        ordinal.parse::<u32>().ok()?.checked_sub(self.start) // a pod below the first ordinal has no index
    }

    /// Whether the pod exceeds the desired number of replicas.
    pub fn is_surplus(&self, pod: &Pod) -> bool {
        self.replica(pod).is_some_and(|replica| replica >= self.desired())
    }

    /// The pods that are not available: missing, terminating, not Ready, or in flight.
    pub fn unavailable(&self, is_in_flight: impl Fn(&Pod) -> bool) -> Vec<Unavailable> {
        let expected = (0..self.expected_pods()).map(|index| self.pod_name(index));
        let missing = expected
            .filter(|name| !self.pods.iter().any(|pod| pod.name == *name))
            .map(|pod| Unavailable {
                pod,
                why: "it is missing".to_owned(),
            });
        let there = self.pods.iter().filter_map(|pod| {
            let leaves = || is_in_flight(pod).then(|| "it is about to be deleted".to_owned());
            let why = pod.unavailable().or_else(leaves)?;
            let pod = pod.name.clone();
            Some(Unavailable { pod, why })
        });
        let mut unavailable: Vec<Unavailable> = missing.chain(there).collect();
        unavailable.sort_by(|a, b| natural(&a.pod, &b.pod));
        unavailable
    }

    /// Why the set does not have exactly its desired pods, all available; `None` if it does.
    pub fn disturbance(&self, is_in_flight: impl Fn(&Pod) -> bool) -> Option<Disturbance> {
        let unavailable = self.unavailable(is_in_flight);
        if !unavailable.is_empty() {
            return Some(Disturbance::Pods(unavailable));
        }
        if !self.is_observed() {
            return Some(Disturbance::NotObserved);
        }
        let not_ready = self.status.replicas.saturating_sub(self.status.ready_replicas);
        if not_ready > 0 {
            return Some(Disturbance::Reported { not_ready });
        }
        let surplus = self.pods.iter().find(|pod| self.is_surplus(pod))?;
        Some(Disturbance::ScalingDown {
            pod: surplus.name.clone(),
        })
    }

    /// The pods whose revision differs from the template's.
    pub fn outdated(&self) -> impl Iterator<Item = &Pod> {
        self.pods
            .iter()
            .filter(|pod| pod.revision() != Some(self.status.update_revision.as_str()))
    }
}

/// A pod that is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Name of the pod.
    pub pod: String,
    /// Why the pod is not available.
    pub why: String,
}

/// Why a set is disturbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// These pods are not available.
    Pods(Vec<Unavailable>),
    /// The controller reports more pods than ready pods.
    Reported {
        /// Reported number of pods that are not ready.
        not_ready: u32,
    },
    /// The controller has not observed the spec: the future number of pods and their revision are unknown.
    NotObserved,
    /// The set has more pods than desired: it is being scaled down.
    ScalingDown {
        /// Name of the first surplus pod.
        pod: String,
    },
}

impl Disturbance {
    /// The minimum number of unavailable pods.
    pub fn unavailable(&self) -> u32 {
        match self {
            Self::Pods(pods) => u32::try_from(pods.len()).unwrap_or(u32::MAX),
            Self::Reported { not_ready } => *not_ready,
            Self::NotObserved | Self::ScalingDown { .. } => 0,
        }
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: SetStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawMetadata {
    name: String,
    uid: String,
    generation: i64,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    replicas: Option<u32>,
    service_name: String,
    ordinals: RawOrdinals,
    update_strategy: RawStrategy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawOrdinals {
    start: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStrategy {
    #[serde(rename = "type")]
    kind: String,
}
