//! The status of a Deployment, including its progress.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use kube::ResourceExt as _;

use super::super::plan::{Plan, Verb, after, nonzero, time};
use super::super::settings::Settings;
use super::family::Family;
use super::limits::limits;

/// What a decision did that the status must report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Nothing to report.
    None,
    /// Created a ReplicaSet with this name.
    Created(String),
    /// Could not create one, because another one has the name: the next attempt uses another.
    Collision,
}

/// Value of `progressDeadlineSeconds` that means no deadline.
const NO_DEADLINE: i32 = i32::MAX;

/// How long a Deployment may go without progress.
fn deadline(deployment: &Deployment, settings: &Settings) -> Option<Duration> {
    let seconds = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.progress_deadline_seconds);
    let own = seconds
        .filter(|seconds| *seconds != NO_DEADLINE)
        .and_then(|seconds| u64::try_from(seconds).ok());
    settings
        .progress_deadline
        .or_else(|| own.map(Duration::from_secs))
}

/// Whether a status reports that the rollout is complete.
pub(super) fn is_complete(deployment: &Deployment, status: Option<&DeploymentStatus>) -> bool {
    let Some(status) = status else { return false };
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let counts = [
        status.updated_replicas,
        status.replicas,
        status.available_replicas,
    ];
    counts.iter().all(|number| number.unwrap_or_default() == wanted)
        && status.observed_generation >= deployment.metadata.generation
}

/// Writes the status if it changed, and schedules a wake-up at the deadline.
pub(super) fn write(
    plan: &mut Plan,
    family: &Family<'_>,
    event: &Event,
    settings: &Settings,
    now: Timestamp,
) {
    let deployment = family.deployment;
    let old = deployment.status.clone().unwrap_or_default(); // none yet
    let mut status = counts(family, &old);
    if *event == Event::Collision {
        status.collision_count = Some(old.collision_count.unwrap_or_default() + 1);
    }
    let progressing = match deadline(deployment, settings) {
        Some(deadline) => progress(family, event, &old, &status, deadline, now),
        None => None,
    };
    if let (Some(deadline), Some(progressing)) = (deadline(deployment, settings), &progressing)
        && waits(progressing)
    {
        plan.wake_at(deadline_of(progressing, deadline));
    }
    let available = availability(family, &status, &old, now);
    status.conditions = Some([Some(available), progressing].into_iter().flatten().collect());
    if deployment.status.as_ref() != Some(&status) {
        plan.write(
            Verb::Status,
            Deployment {
                status: Some(status),
                ..deployment.clone()
            },
        );
    }
}

fn counts(family: &Family<'_>, old: &DeploymentStatus) -> DeploymentStatus {
    let sum = |number: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> i32| -> i32 {
        family
            .all()
            .filter_map(|set| set.status.as_ref())
            .map(number)
            .sum()
    };
    let available = sum(|status| status.available_replicas.unwrap_or_default());
    let updated = family
        .new
        .and_then(|child| child.set.status.as_ref())
        .map(|status| status.replicas);
    let wanted: i32 = family.all().map(super::family::size).sum();
    DeploymentStatus {
        observed_generation: family.deployment.metadata.generation,
        replicas: nonzero(sum(|status| status.replicas)),
        updated_replicas: updated.and_then(nonzero),
        ready_replicas: nonzero(sum(|status| status.ready_replicas.unwrap_or_default())),
        available_replicas: nonzero(available),
        unavailable_replicas: nonzero((wanted - available).max(0)),
        ..old.clone()
    }
}

fn availability(
    family: &Family<'_>,
    status: &DeploymentStatus,
    old: &DeploymentStatus,
    now: Timestamp,
) -> DeploymentCondition {
    let minimum = family.replicas() - limits(&family.spec).unavailable;
    let has_minimum = status.available_replicas.unwrap_or_default() >= minimum;
    let new = if has_minimum {
        condition(
            "Available",
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
            now,
        )
    } else {
        condition(
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
            now,
        )
    };
    match find(old, "Available") {
        Some(old) if old.status == new.status && old.reason == new.reason => old.clone(),
        _ => new,
    }
}

/// The condition `Progressing`, as the deployment controller has it.
fn progress(
    family: &Family<'_>,
    event: &Event,
    old: &DeploymentStatus,
    new: &DeploymentStatus,
    deadline: Duration,
    now: Timestamp,
) -> Option<DeploymentCondition> {
    let current = find(old, "Progressing");
    let reason = current
        .and_then(|current| current.reason.as_deref())
        .unwrap_or_default();
    let name = family
        .new
        .map_or_else(|| family.deployment.name_any(), |child| child.set.name_any());
    let progressing = |status: &str, reason: &str, message: &str| {
        let mut new_condition = condition("Progressing", status, reason, message, now);
        if let Some(current) = current.filter(|current| current.status == status) {
            new_condition
                .last_transition_time
                .clone_from(&current.last_transition_time);
        }
        Some(new_condition)
    };
    if let Event::Created(name) = event {
        return progressing(
            "True",
            "NewReplicaSetCreated",
            &format!("Created new replica set \"{name}\""),
        );
    }
    match (family.is_paused(), reason) {
        (true, "DeploymentPaused" | TIMED_OUT) => return current.cloned(),
        (true, _) => return progressing("Unknown", "DeploymentPaused", "Deployment is paused"),
        (false, "DeploymentPaused") => {
            return progressing("Unknown", "DeploymentResumed", "Deployment is resumed");
        }
        (false, _) => {}
    }
    if reason == AVAILABLE && new.replicas == new.updated_replicas {
        return current.cloned();
    }
    if is_complete(family.deployment, Some(new)) {
        return progressing(
            "True",
            AVAILABLE,
            &format!("ReplicaSet \"{name}\" has successfully progressed."),
        );
    }
    if has_moved(old, new) {
        return progressing(
            "True",
            "ReplicaSetUpdated",
            &format!("ReplicaSet \"{name}\" is progressing."),
        );
    }
    match current {
        None => progressing(
            "True",
            "FoundNewReplicaSet",
            &format!("Found new replica set \"{name}\""),
        ),
        Some(current) if waits(current) && deadline_of(current, deadline) <= now => progressing(
            "False",
            TIMED_OUT,
            &format!("ReplicaSet \"{name}\" has timed out progressing."),
        ),
        Some(current) => Some(current.clone()),
    }
}

const AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// Whether pods were created, became ready or available, or old ones were removed.
fn has_moved(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let number = |number: Option<i32>| number.unwrap_or_default(); // zero is omitted
    let outdated = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(new.updated_replicas) > number(old.updated_replicas)
        || outdated(new) < outdated(old)
        || number(new.ready_replicas) > number(old.ready_replicas)
        || number(new.available_replicas) > number(old.available_replicas)
}

/// Whether the deadline is running.
fn waits(progressing: &DeploymentCondition) -> bool {
    !matches!(
        progressing.reason.as_deref(),
        Some(AVAILABLE | TIMED_OUT | "DeploymentPaused")
    )
}

fn deadline_of(progressing: &DeploymentCondition, deadline: Duration) -> Timestamp {
    progressing
        .last_update_time
        .as_ref()
        .map_or(Timestamp::MAX, |time| after(time.0, deadline))
}

fn find<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == kind)
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    }
}
