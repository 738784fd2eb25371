//! The status of a pod at a stage.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodCondition, PodIP, PodStatus};

use super::super::hash::fnv;
use super::super::plan::time;
use super::super::shelf::meta_uid;
use super::containers;
use super::stage::Stage;

/// The address of every simulated node.
const HOST: &str = "192.0.2.1";

/// The status of a scheduled pod.
pub(super) fn at(pod: &Pod, stage: &Stage, now: Timestamp) -> PodStatus {
    let old = pod.status.clone().unwrap_or_default(); // none yet
    let begun = !matches!(stage, Stage::Creating);
    let start = old.start_time.clone().unwrap_or_else(|| time(now));
    let ip = begun.then(|| address(meta_uid(&pod.metadata)));
    PodStatus {
        phase: Some(phase_of(stage).to_owned()),
        conditions: Some(conditions(pod, stage, now)),
        host_ip: Some(HOST.to_owned()),
        host_ips: Some(vec![HostIP { ip: HOST.to_owned() }]),
        pod_ips: ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ip,
        start_time: Some(start),
        init_container_statuses: containers::of_init(pod, stage, now),
        container_statuses: Some(containers::container_statuses(pod, stage, now)),
        ..old
    }
}

/// The status of an unschedulable pod.
pub(super) fn unschedulable(pod: &Pod, nodes: usize, now: Timestamp) -> PodStatus {
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
    let names = pod
        .spec
        .iter()
        .flat_map(|spec| spec.containers.iter())
        .map(|container| container.name.as_str());
    let message = format!(
        "containers with unready status: [{}]",
        names.collect::<Vec<_>>().join(" ")
    );
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

/// A condition, with the transition time of the old one if its status is unchanged.
fn condition(
    pod: &Pod,
    kind: &str,
    is_true: bool,
    why: Option<(&str, &str)>,
    now: Timestamp,
) -> PodCondition {
    let status = if is_true { "True" } else { "False" };
    let mut old = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let same = old.find(|condition| condition.type_ == kind && condition.status == status);
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        last_transition_time: same
            .and_then(|old| old.last_transition_time.clone())
            .or_else(|| Some(time(now))),
        reason: why.and_then(|(reason, _)| text(reason)),
        message: why.and_then(|(_, message)| text(message)),
        ..PodCondition::default()
    }
}

/// An address of 10.128.0.0/9 derived from the pod's uid: stable, and most likely unique.
fn address(uid: &str) -> String {
    let [_, a, b, c] = fnv(uid.as_bytes()).to_be_bytes();
    format!("10.{}.{b}.{c}", a | 128)
}
