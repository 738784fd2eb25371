//! The stage of a pod, by time and by its simulated failure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::super::plan::after;
use super::super::settings::{Failure, Settings};
use super::super::shelf::Observed;
use super::{phase, ready_since};

/// Stage of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its containers are being created.
    Creating,
    /// The image of the container at this index cannot be pulled; first that is an error, then it backs off.
    NotPulled {
        /// Whether it backs off before the next attempt.
        backs_off: bool,
    },
    /// The containers run.
    Running {
        /// Whether they are ready.
        ready: bool,
    },
    /// The containers ended with an error and will be restarted.
    Crashing,
    /// All containers succeeded.
    Succeeded,
    /// A container ended with an error and will not be restarted.
    Failed,
}

/// The current stage, and when the next one begins without a change.
pub(super) fn pod_stage(
    pod: &Observed<Pod>,
    settings: &Settings,
    now: Timestamp,
) -> (Stage, Option<Timestamp>) {
    let halfway = after(pod.since, settings.ready_after / 2);
    let ready = after(pod.since, settings.ready_after);
    // A pod that ran before it was observed keeps running: a restarted player stops nothing.
    let has_begun = now >= ready || ready_since(&pod.object).is_some() || phase(&pod.object) == "Running";
    if settings.failure == Some(Failure::ImagePull) || images(&pod.object).any(is_bad) {
        return match (now >= ready, now >= halfway) {
            (true, _) => (Stage::NotPulled { backs_off: true }, None),
            (false, true) => (Stage::NotPulled { backs_off: false }, Some(ready)),
            (false, false) => (Stage::Creating, Some(halfway)),
        };
    }
    if !has_begun {
        return (Stage::Creating, Some(ready));
    }
    let policy = pod
        .object
        .spec
        .as_ref()
        .and_then(|spec| spec.restart_policy.as_deref())
        .unwrap_or("Always");
    match (settings.failure, policy) {
        (Some(Failure::Crash), "Never") => (Stage::Failed, None),
        (Some(Failure::Crash), _) => (Stage::Crashing, None),
        (Some(Failure::Unready), _) => (Stage::Running { ready: false }, None),
        (_, "Always") => (Stage::Running { ready: true }, None),
        (_, _) => {
            let end = after(ready, settings.finish_after);
            if now >= end {
                (Stage::Succeeded, None)
            } else {
                (Stage::Running { ready: true }, Some(end))
            }
        }
    }
}

/// Whether an image cannot be pulled because of its name.
pub(super) fn is_bad(image: &str) -> bool {
    image.contains("bad")
}

fn images(pod: &Pod) -> impl Iterator<Item = &str> {
    let spec = pod.spec.iter();
    let all = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.filter_map(|container| container.image.as_deref())
}
