//! The status of a StatefulSet.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::super::plan::{Plan, Verb, count, nonzero};
use super::super::pod::{self, Progress};
use super::super::revision::LABEL;
use super::Row;

/// Writes the status if it has changed.
pub fn write(plan: &mut Plan, row: &Row<'_>) {
    let active: Vec<&Pod> = row
        .pods
        .iter()
        .map(|(_, pod)| *pod)
        .filter(|pod| pod::is_active(pod))
        .collect();
    let progress = Progress::of(active.iter().copied(), row.spec.min_ready_seconds, row.now);
    let of = |revision: &str| {
        count(
            active
                .iter()
                .filter(|pod| pod.labels().get(LABEL).is_some_and(|own| own == revision))
                .count(),
        )
    };
    let (replicas, updated) = (count(active.len()), of(&row.update));
    // The rollout is over when all pods that there are to be have the newest revision and are ready.
    let wanted = row.end() - row.start();
    let is_over = row.rolls()
        && [replicas, updated, progress.ready]
            .iter()
            .all(|number| *number == wanted);
    let current = if is_over { &row.update } else { &row.current.0 };
    let status = StatefulSetStatus {
        replicas,
        ready_replicas: nonzero(progress.ready),
        available_replicas: Some(progress.available),
        current_replicas: nonzero(of(current)),
        updated_replicas: nonzero(updated),
        current_revision: Some(current.clone()),
        update_revision: Some(row.update.clone()),
        observed_generation: row.set.metadata.generation,
        ..row.set.status.clone().unwrap_or_default() // none yet
    };
    if row.set.status.as_ref() != Some(&status) {
        plan.write(
            Verb::Status,
            StatefulSet {
                status: Some(status),
                ..row.set.clone()
            },
        );
    }
    if let Some(next) = progress.next {
        plan.wake_at(next);
    }
}
