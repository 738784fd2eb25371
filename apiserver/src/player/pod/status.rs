//! The status of a pod at a stage.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::hash::fnv;
use super::super::plan::time;
use super::super::shelf::uid;
use super::stage::{Stage, is_bad};

/// The address of every simulated node.
const HOST: &str = "192.0.2.1";

/// The status of a pod that has a node.
pub fn at(pod: &Pod, stage: &Stage, now: Timestamp) -> PodStatus {
    let old = pod.status.clone().unwrap_or_default(); // none yet
    let begun = !matches!(stage, Stage::Creating);
    let start = old.start_time.clone().unwrap_or_else(|| time(now));
    let all = pod.spec.iter().flat_map(|spec| spec.containers.iter());
    let containers: Vec<ContainerStatus> =
        all.map(|container| container_status(pod, container, &old, stage, now)).collect();
    let init: Vec<ContainerStatus> = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten())
        .map(|container| init_status(pod, container, &old, stage, now)).collect();
    let ip = begun.then(|| address(uid(&pod.metadata)));
    PodStatus {
        phase: Some(phase_of(stage).to_owned()),
        conditions: Some(conditions(pod, stage, now)),
        host_ip: Some(HOST.to_owned()),
        host_ips: Some(vec![HostIP { ip: HOST.to_owned() }]),
        pod_ips: ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ip,
        start_time: Some(start),
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(containers),
        ..old
    }
}

/// The status of a pod that no node takes.
pub fn unschedulable(pod: &Pod, nodes: usize, now: Timestamp) -> PodStatus {
    let message = format!("0/{nodes} nodes are available");
    let why = Some(("Unschedulable", message.as_str()));
    PodStatus {
        phase: Some("Pending".to_owned()),
        conditions: Some(vec![condition(pod, "PodScheduled", false, why, now)]),
        ..pod.status.clone().unwrap_or_default() // none yet
    }
}

fn phase_of(stage: &Stage) -> &'static str {
    match stage {
        Stage::Creating | Stage::NotPulled { .. } => "Pending",
        Stage::Running { .. } | Stage::Crashing => "Running",
        Stage::Succeeded => "Succeeded",
        Stage::Failed => "Failed",
    }
}

fn conditions(pod: &Pod, stage: &Stage, now: Timestamp) -> Vec<PodCondition> {
    let names = pod.spec.iter().flat_map(|spec| spec.containers.iter()).map(|container| container.name.as_str());
    let message = format!("containers with unready status: [{}]", names.collect::<Vec<_>>().join(" "));
    let why = match stage {
        Stage::Running { ready: true } => None,
        Stage::Succeeded => Some(("PodCompleted", "")),
        Stage::Failed => Some(("PodFailed", "")),
        _ => Some(("ContainersNotReady", message.as_str())),
    };
    let has_sandbox = !matches!(stage, Stage::Creating | Stage::Succeeded | Stage::Failed);
    vec![
        condition(pod, "PodReadyToStartContainers", has_sandbox, None, now),
        condition(pod, "Initialized", true, None, now),
        condition(pod, "Ready", why.is_none(), why, now),
        condition(pod, "ContainersReady", why.is_none(), why, now),
        condition(pod, "PodScheduled", true, None, now),
    ]
}

/// A condition, with the time of the old one if it says the same.
fn condition(pod: &Pod, kind: &str, is_true: bool, why: Option<(&str, &str)>, now: Timestamp) -> PodCondition {
    let status = if is_true { "True" } else { "False" };
    let mut old = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let same = old.find(|condition| condition.type_ == kind && condition.status == status);
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        last_transition_time: same.and_then(|old| old.last_transition_time.clone()).or_else(|| Some(time(now))),
        reason: why.and_then(|(reason, _)| text(reason)),
        message: why.and_then(|(_, message)| text(message)),
        ..PodCondition::default()
    }
}

fn container_status(pod: &Pod, container: &Container, old: &PodStatus, stage: &Stage, now: Timestamp) -> ContainerStatus {
    let old = old.container_statuses.iter().flatten().find(|status| status.name == container.name);
    let image = container.image.clone().unwrap_or_default();
    // When one image is bad the others' containers run, but one failure asked for by annotation is everybody's.
    let bad_here = is_bad(&image) || !pod.spec.iter().any(|spec| spec.containers.iter().any(|c| c.image.as_deref().is_some_and(is_bad)));
    let state = match stage {
        Stage::NotPulled { .. } if !bad_here => running(old, now),
        Stage::NotPulled { backs_off } => not_pulled(&image, *backs_off),
        Stage::Creating => waiting("ContainerCreating", None),
        Stage::Running { .. } => running(old, now),
        Stage::Crashing => {
            let message = format!("back-off 10s restarting failed container={}", container.name);
            waiting("CrashLoopBackOff", Some(message))
        }
        Stage::Succeeded => terminated(old, 0, now),
        Stage::Failed => terminated(old, 1, now),
    };
    let crashed = matches!(stage, Stage::Crashing);
    let last_state = if crashed {
        let known = old.and_then(|old| old.last_state.clone()).filter(|state| state.terminated.is_some());
        known.or_else(|| Some(terminated(None, 1, now)))
    } else {
        old.and_then(|old| old.last_state.clone())
    };
    let is_running = state.running.is_some();
    let has_run = is_running || crashed || state.terminated.is_some();
    ContainerStatus {
        name: container.name.clone(),
        image_id: if has_run { format!("simulated://{}", fnv(image.as_bytes())) } else { String::new() },
        container_id: has_run.then(|| format!("simulated://{}/{}", uid(&pod.metadata), container.name)),
        image,
        ready: is_running && *stage != Stage::Running { ready: false },
        started: Some(is_running),
        restart_count: i32::from(crashed || old.is_some_and(|old| old.restart_count > 0)),
        state: Some(state),
        last_state,
        ..ContainerStatus::default()
    }
}

fn init_status(pod: &Pod, container: &Container, old: &PodStatus, stage: &Stage, now: Timestamp) -> ContainerStatus {
    let old = old.init_container_statuses.iter().flatten().find(|status| status.name == container.name);
    let image = container.image.clone().unwrap_or_default();
    let state = match stage {
        Stage::Creating => waiting("PodInitializing", None),
        Stage::NotPulled { backs_off } if is_bad(&image) => not_pulled(&image, *backs_off),
        _ => terminated(old, 0, now),
    };
    let is_over = state.terminated.is_some();
    ContainerStatus {
        name: container.name.clone(),
        image_id: if is_over { format!("simulated://{}", fnv(image.as_bytes())) } else { String::new() },
        container_id: is_over.then(|| format!("simulated://{}/{}", uid(&pod.metadata), container.name)),
        image,
        ready: is_over,
        started: Some(false),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let state = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(state), ..ContainerState::default() }
}

fn not_pulled(image: &str, backs_off: bool) -> ContainerState {
    let error = format!("failed to pull and unpack image \"{image}\": not found");
    if backs_off {
        let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {error}");
        waiting("ImagePullBackOff", Some(message))
    } else {
        waiting("ErrImagePull", Some(error))
    }
}

fn running(old: Option<&ContainerStatus>, now: Timestamp) -> ContainerState {
    let state = ContainerStateRunning { started_at: Some(started(old).unwrap_or_else(|| time(now))) };
    ContainerState { running: Some(state), ..ContainerState::default() }
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
    ContainerState { terminated: Some(state), ..ContainerState::default() }
}

fn started(old: Option<&ContainerStatus>) -> Option<Time> {
    old?.state.as_ref()?.running.as_ref()?.started_at.clone()
}

/// An address of 10.128.0.0/9 by the pod's uid: stable, and like enough to be its own.
fn address(uid: &str) -> String {
    let [_, a, b, c] = fnv(uid.as_bytes()).to_be_bytes();
    format!("10.{}.{b}.{c}", a | 128)
}
