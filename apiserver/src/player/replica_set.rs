//! ReplicaSets: as many pods as desired.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

use super::plan::{Plan, Verb, nonzero, object_count};
use super::pod::{self, Progress};
use super::template::{from_template, owner};
use super::world::is_placed;

/// Decides what to do about a ReplicaSet that controls these pods.
pub(super) fn decide(set: &ReplicaSet, pods: &[&Pod], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let active: Vec<&Pod> = pods.iter().copied().filter(|pod| pod::is_active(pod)).collect();
    let spec = set.spec.clone().unwrap_or_default(); // the server requires one
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default(); // negative values are rejected
    if set.metadata.deletion_timestamp.is_none() {
        let template = spec.template.unwrap_or_default(); // the server requires one
        for _ in active.len()..wanted {
            plan.write(Verb::Create, new_pod(set, &template));
        }
        for pod in surplus(active.clone(), wanted) {
            plan.write(Verb::Delete, pod.clone());
        }
    }
    let progress = Progress::of(active.iter().copied(), spec.min_ready_seconds, now);
    let labels = set
        .spec
        .as_ref()
        .and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.clone());
    let labels = labels.unwrap_or_default(); // no labels: all pods match
    let labelled = |pod: &&&Pod| {
        labels
            .iter()
            .all(|(key, value)| pod.labels().get(key) == Some(value))
    };
    let old = set.status.clone().unwrap_or_default(); // none yet
    let status = ReplicaSetStatus {
        replicas: object_count(active.len()),
        fully_labeled_replicas: nonzero(object_count(active.iter().filter(labelled).count())),
        ready_replicas: nonzero(progress.ready),
        available_replicas: nonzero(progress.available),
        observed_generation: set.metadata.generation,
        ..old
    };
    if set.status.as_ref() != Some(&status) {
        plan.write(
            Verb::Status,
            ReplicaSet {
                status: Some(status),
                ..set.clone()
            },
        );
    }
    if let Some(next) = progress.next {
        plan.wake_at(next);
    }
    plan
}

fn new_pod(set: &ReplicaSet, template: &PodTemplateSpec) -> Pod {
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", set.name_any())),
        namespace: set.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    from_template(template, metadata, owner(set))
}

/// Pods to delete first when there are too many: unscheduled, pending, not ready, young.
fn surplus(mut active: Vec<&Pod>, wanted: usize) -> Vec<&Pod> {
    let too_many = active.len().saturating_sub(wanted);
    let rank = |pod: &&Pod| {
        (
            is_placed(pod),
            pod::phase(pod) == "Running",
            pod::ready_since(pod).is_some(),
        )
    };
    active.sort_by(|a, b| {
        let young_first = b.metadata.creation_timestamp.cmp(&a.metadata.creation_timestamp);
        rank(a)
            .cmp(&rank(b))
            .then(young_first)
            .then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    active.truncate(too_many);
    active
}
