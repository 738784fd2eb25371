//! A StatefulSet as decisions read it, and whether all of its pods are available.

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod as LivePod};

use super::{annotations::Texts, pod::Pod};
use crate::order::natural;

/// A StatefulSet and the pods that it owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
    /// `spec.updateStrategy.type`.
    pub strategy: String,
    /// `spec.replicas`.
    pub replicas: u32,
    /// `spec.ordinals.start`.
    pub start: u32,
    /// `spec.serviceName`.
    pub service: String,
    /// The generation that its controller observed.
    pub observed_generation: i64,
    /// `status.replicas`.
    pub status_replicas: u32,
    /// `status.readyReplicas`.
    pub ready_replicas: u32,
    /// `status.updatedReplicas`.
    pub updated_replicas: u32,
    /// `status.currentRevision`.
    pub current_revision: String,
    /// `status.updateRevision`.
    pub update_revision: String,
    /// The pods that it owns, in natural order.
    pub pods: Vec<Pod>,
}

/// A pod that is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Its name.
    pub pod: String,
    /// Why.
    pub why: String,
}

/// Why not all pods of a set are available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// These are not.
    Pods(Vec<Unavailable>),
    /// Its controller did not observe its spec: how many it will have, and at which revision, is not known.
    NotObserved,
    /// It has more pods than it is to have: it is being scaled down.
    ScalingDown {
        /// The first that is to go.
        pod: String,
    },
}

impl Disturbance {
    /// How many pods are unavailable for certain.
    pub fn unavailable(&self) -> u32 {
        match self {
            Self::Pods(pods) => u32::try_from(pods.len()).unwrap_or(u32::MAX),
            Self::NotObserved | Self::ScalingDown { .. } => 0,
        }
    }
}

impl Set {
    /// A live set, and those of `pods` that it owns: by uid, never by labels.
    pub fn of(set: &StatefulSet, pods: &[LivePod]) -> Self {
        let metadata = &set.metadata;
        let spec = set.spec.as_ref();
        let status = set.status.as_ref();
        let uid = metadata.uid.clone().unwrap_or_default();
        let count = |count: Option<i32>| {
            count
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or_default()
        };
        let mut owned: Vec<Pod> = pods
            .iter()
            .filter(|pod| is_owned(pod, &uid))
            .map(Pod::of)
            .collect();
        owned.sort_by(|a, b| natural(&a.name, &b.name));
        let strategy = spec.and_then(|spec| spec.update_strategy.as_ref());
        let ordinals = spec.and_then(|spec| spec.ordinals.as_ref());
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid,
            generation: metadata.generation.unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            strategy: strategy
                .and_then(|strategy| strategy.type_.clone())
                .unwrap_or_default(),
            replicas: spec.map_or(1, |spec| {
                spec.replicas.map_or(1, |replicas| count(Some(replicas)))
            }),
            start: count(ordinals.and_then(|ordinals| ordinals.start)),
            service: spec
                .and_then(|spec| spec.service_name.clone())
                .unwrap_or_default(),
            observed_generation: status
                .and_then(|status| status.observed_generation)
                .unwrap_or_default(),
            status_replicas: count(status.map(|status| status.replicas)),
            ready_replicas: count(status.and_then(|status| status.ready_replicas)),
            updated_replicas: count(status.and_then(|status| status.updated_replicas)),
            current_revision: status
                .and_then(|status| status.current_revision.clone())
                .unwrap_or_default(),
            update_revision: status
                .and_then(|status| status.update_revision.clone())
                .unwrap_or_default(),
            pods: owned,
        }
    }

    /// How many pods it is to have, or has by its controller's word: whichever is more.
    pub fn expected(&self) -> u32 {
        self.replicas.max(self.status_replicas)
    }

    /// Whether its controller observed its spec.
    pub fn is_observed(&self) -> bool {
        self.observed_generation >= self.generation
    }

    /// The name of the pod of an ordinal, counted from the first one.
    fn pod_name(&self, index: u32) -> String {
        format!("{}-{}", self.name, u64::from(self.start) + u64::from(index))
    }

    /// Whether a pod is beyond those that it is to have.
    fn is_surplus(&self, pod: &Pod) -> bool {
        let ordinal = pod
            .name
            .strip_prefix(&self.name)
            .and_then(|rest| rest.strip_prefix('-'));
        let ordinal = ordinal.and_then(|ordinal| ordinal.parse::<u64>().ok()); // a pod of no ordinal is none of these
        ordinal.is_some_and(|ordinal| ordinal >= u64::from(self.start) + u64::from(self.replicas))
    }

    /// The pods that are not available: missing, terminating, not Ready, or on their way out.
    pub fn unavailable(&self, is_in_flight: impl Fn(&Pod) -> bool) -> Vec<Unavailable> {
        let expected = (0..self.expected()).map(|index| self.pod_name(index));
        let missing = expected
            .filter(|name| !self.pods.iter().any(|pod| pod.name == *name))
            .map(|pod| Unavailable {
                pod,
                why: "it is missing".to_owned(),
            });
        let there = self.pods.iter().filter_map(|pod| {
            let why = match &pod.not_ready {
                Some(why) => why.clone(),
                None if is_in_flight(pod) => "it is about to be deleted".to_owned(),
                None => return None,
            };
            let pod = pod.name.clone();
            Some(Unavailable { pod, why })
        });
        let mut unavailable: Vec<Unavailable> = missing.chain(there).collect();
        unavailable.sort_by(|a, b| natural(&a.pod, &b.pod));
        unavailable
    }

    /// Why not all of its pods are available, and no more than it is to have.
    pub fn disturbance(&self, is_in_flight: impl Fn(&Pod) -> bool) -> Option<Disturbance> {
        let unavailable = self.unavailable(is_in_flight);
        if !unavailable.is_empty() {
            return Some(Disturbance::Pods(unavailable));
        }
        if !self.is_observed() {
            return Some(Disturbance::NotObserved);
        }
        let surplus = self.pods.iter().find(|pod| self.is_surplus(pod))?;
        Some(Disturbance::ScalingDown {
            pod: surplus.name.clone(),
        })
    }

    /// The pods that are at another revision than its template.
    pub fn outdated(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| !pod.is_at(&self.update_revision))
    }
}

fn is_owned(pod: &LivePod, set: &str) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.controller == Some(true));
    !set.is_empty() && owners.any(|owner| owner.kind == "StatefulSet" && owner.uid == set)
}
