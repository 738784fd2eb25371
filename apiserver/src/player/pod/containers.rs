//! The containers of a pod at a stage.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod, PodSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::hash::fnv;
use super::super::plan::time;
use super::super::shelf::meta_uid;
use super::stage::{Stage, is_bad};

/// The status of the containers.
pub(super) fn container_statuses(pod: &Pod, stage: &Stage, now: Timestamp) -> Vec<ContainerStatus> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let known = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_deref())
        .unwrap_or_default();
    let find = |name: &str| known.iter().find(|status| status.name == name);
    spec.containers
        .iter()
        .map(|container| main(pod, spec, container, find(&container.name), stage, now))
        .collect()
}

/// The status of the init containers; `None` if there are none.
pub(super) fn of_init(pod: &Pod, stage: &Stage, now: Timestamp) -> Option<Vec<ContainerStatus>> {
    let containers = pod.spec.as_ref()?.init_containers.as_ref()?;
    let known = pod
        .status
        .as_ref()
        .and_then(|status| status.init_container_statuses.as_deref())
        .unwrap_or_default();
    let find = |name: &str| known.iter().find(|status| status.name == name);
    Some(
        containers
            .iter()
            .map(|container| init(pod, container, find(&container.name), stage, now))
            .collect(),
    )
}

fn main(
    pod: &Pod,
    spec: &PodSpec,
    container: &Container,
    old: Option<&ContainerStatus>,
    stage: &Stage,
    now: Timestamp,
) -> ContainerStatus {
    let current = match stage {
        Stage::Creating => waiting("ContainerCreating", None),
        Stage::NotPulled { backs_off } if is_to_blame(spec, container) => not_pulled(container, *backs_off),
        Stage::NotPulled { .. } | Stage::Running { .. } => running(old, now),
        Stage::Crashing => waiting(
            "CrashLoopBackOff",
            Some(format!(
                "back-off 10s restarting failed container={}",
                container.name
            )),
        ),
        Stage::Succeeded => terminated(old, 0, now),
        Stage::Failed => terminated(old, 1, now),
    };
    let is_crashing = *stage == Stage::Crashing;
    let is_running = current.running.is_some();
    let has_run = is_running || is_crashing || current.terminated.is_some();
    ContainerStatus {
        ready: is_running && *stage != Stage::Running { ready: false },
        started: Some(is_running),
        restart_count: i32::from(is_crashing || old.is_some_and(|old| old.restart_count > 0)),
        last_state: last(old, is_crashing, now),
        ..status(pod, container, current, has_run)
    }
}

/// Previous termination of the container, if it is crashing.
fn last(old: Option<&ContainerStatus>, is_crashing: bool, now: Timestamp) -> Option<ContainerState> {
    let known = old.and_then(|old| old.last_state.clone());
    let has_ended = known.as_ref().is_some_and(|state| state.terminated.is_some());
    if is_crashing && !has_ended {
        Some(terminated(None, 1, now))
    } else {
        known
    }
}

fn init(
    pod: &Pod,
    container: &Container,
    old: Option<&ContainerStatus>,
    stage: &Stage,
    now: Timestamp,
) -> ContainerStatus {
    let current = match stage {
        Stage::Creating => waiting("PodInitializing", None),
        Stage::NotPulled { backs_off } if has_bad_image(container) => not_pulled(container, *backs_off),
        _ => terminated(old, 0, now),
    };
    let is_over = current.terminated.is_some();
    ContainerStatus {
        ready: is_over,
        started: Some(false),
        ..status(pod, container, current, is_over)
    }
}

fn status(pod: &Pod, container: &Container, state: ContainerState, has_run: bool) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default(); // the server requires one
    ContainerStatus {
        name: container.name.clone(),
        image_id: if has_run {
            format!("simulated://{:08x}", fnv(image.as_bytes()))
        } else {
            String::new()
        },
        container_id: has_run.then(|| format!("simulated://{}/{}", meta_uid(&pod.metadata), container.name)),
        image,
        state: Some(state),
        ..ContainerStatus::default()
    }
}

fn has_bad_image(container: &Container) -> bool {
    container.image.as_deref().is_some_and(is_bad)
}

/// Whether this container's image cannot be pulled: for bad images each one, for a failure set by annotation all.
fn is_to_blame(spec: &PodSpec, container: &Container) -> bool {
    let init = spec.init_containers.iter().flatten();
    has_bad_image(container) || !init.chain(&spec.containers).any(has_bad_image)
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let state = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message,
    };
    ContainerState {
        waiting: Some(state),
        ..ContainerState::default()
    }
}

fn not_pulled(container: &Container, backs_off: bool) -> ContainerState {
    let image = container.image.as_deref().unwrap_or_default(); // the server requires one
    let error = format!("failed to pull and unpack image \"{image}\": not found");
    if backs_off {
        let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {error}");
        waiting("ImagePullBackOff", Some(message))
    } else {
        waiting("ErrImagePull", Some(error))
    }
}

fn running(old: Option<&ContainerStatus>, now: Timestamp) -> ContainerState {
    let state = ContainerStateRunning {
        started_at: Some(started(old).unwrap_or_else(|| time(now))),
    };
    ContainerState {
        running: Some(state),
        ..ContainerState::default()
    }
}

fn terminated(old: Option<&ContainerStatus>, code: i32, now: Timestamp) -> ContainerState {
    let known = old.and_then(|old| old.state.as_ref()?.terminated.clone());
    let state = known.unwrap_or_else(|| ContainerStateTerminated {
        exit_code: code,
        reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
        started_at: started(old).or_else(|| Some(time(now))),
        finished_at: Some(time(now)),
        ..ContainerStateTerminated::default()
    });
    ContainerState {
        terminated: Some(state),
        ..ContainerState::default()
    }
}

fn started(old: Option<&ContainerStatus>) -> Option<Time> {
    old?.state.as_ref()?.running.as_ref()?.started_at.clone()
}
