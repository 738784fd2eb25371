//! The status of a StatefulSet.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use kube::ResourceExt as _;

use super::super::plan::{Plan, Verb, nonzero, object_count};
use super::super::pod::Progress;
use super::super::revision::LABEL;
use super::Row;

/// Writes the status if it changed. As on a real cluster, a terminating pod counts as a replica, and as ready, as long
/// as it exists, but not as a replica of its revision.
pub(super) fn write(plan: &mut Plan, row: &Row<'_>) {
    let all = row.pods.iter().map(|(_, pod)| *pod);
    let progress = Progress::of(all.clone(), row.spec.min_ready_seconds, row.now);
    let of = |revision: &str| {
        let own = all
            .clone()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .filter(|pod| pod.labels().get(LABEL).is_some_and(|own| own == revision));
        object_count(own.count())
    };
    let (replicas, updated) = (object_count(row.pods.len()), of(&row.update));
    // The rollout is complete when all desired pods have the newest revision and are ready.
    let wanted = row.end() - row.start();
    let is_over = row.rolls()
        && [replicas, updated, progress.ready]
            .iter()
            .all(|number| *number == wanted);
    let current = if is_over { &row.update } else { &row.current.0 };
    let old = row.set.status.clone().unwrap_or_default(); // none yet
    let status = StatefulSetStatus {
        replicas,
        ready_replicas: nonzero(progress.ready),
        available_replicas: Some(progress.available),
        current_replicas: nonzero(of(current)),
        updated_replicas: nonzero(updated),
        current_revision: Some(current.clone()),
        update_revision: Some(row.update.clone()),
        observed_generation: row.set.metadata.generation,
        collision_count: Some(old.collision_count.unwrap_or_default()), // none yet
        ..old
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
