//! A pod as decisions read it.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod as LivePod};
use muster_api::labels::label::CONTROLLER_REVISION;

/// What a container waits for that is no matter of time: its image or its configuration are wrong, or it ends each time it is started.
const STUCK: [&str; 6] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It was not started yet.
    Pending,
    /// It was started.
    Running,
    /// It ended, one way or the other.
    Ended,
    /// Nothing is known of it.
    #[default]
    Unknown,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The revision of the template that it was made from.
    pub revision: Option<String>,
    /// Its phase.
    pub phase: Phase,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Whether one of its containers was ever started.
    pub is_started: bool,
    /// Why it is not Ready, if it is not.
    pub not_ready: Option<String>,
    /// Why it does not come up by itself, if it does not.
    pub stuck: Option<String>,
}

impl Pod {
    /// A live pod.
    pub fn of(pod: &LivePod) -> Self {
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_deref());
        let containers = containers.unwrap_or_default();
        let labels = pod.metadata.labels.as_ref();
        let phase = match status.and_then(|status| status.phase.as_deref()) {
            Some("Pending") => Phase::Pending,
            Some("Running") => Phase::Running,
            Some("Succeeded" | "Failed") => Phase::Ended,
            _ => Phase::Unknown,
        };
        let is_terminating = pod.metadata.deletion_timestamp.is_some();
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            revision: labels.and_then(|labels| labels.get(CONTROLLER_REVISION).cloned()),
            phase,
            is_terminating,
            is_started: containers.iter().any(was_started),
            not_ready: not_ready(pod, phase, is_terminating, containers),
            stuck: containers.iter().find_map(stuck),
        }
    }

    /// Whether it serves.
    pub fn is_ready(&self) -> bool {
        self.not_ready.is_none()
    }

    /// Whether it is at a revision.
    pub fn is_at(&self, revision: &str) -> bool {
        self.revision.as_deref() == Some(revision)
    }
}

/// Running, not being deleted, each container ready and running; and not `Ready=False`, which readiness gates may say alone.
fn not_ready(
    pod: &LivePod,
    phase: Phase,
    is_terminating: bool,
    containers: &[ContainerStatus],
) -> Option<String> {
    if is_terminating {
        return Some("it is being deleted".to_owned());
    }
    if phase != Phase::Running {
        return Some(not_running(pod, phase));
    }
    if let Some(container) = containers.iter().find(|container| !is_up(container)) {
        return Some(not_up(container));
    }
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready")?;
    let message = ready.message.clone().unwrap_or_default();
    (ready.status != "True").then(|| {
        let text = format!("its condition Ready is {}: {message}", ready.status);
        text.trim_end_matches(": ").to_owned()
    })
}

/// The scheduler's words, or those of a container.
fn not_running(pod: &LivePod, phase: Phase) -> String {
    let status = pod.status.as_ref();
    let conditions = status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let scheduled = conditions
        .into_iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status != "True");
    if let Some(message) = scheduled.and_then(|condition| condition.message.clone()) {
        return format!("it is not scheduled: {message}");
    }
    let containers = status.and_then(|status| status.container_statuses.as_deref());
    let waiting = containers
        .unwrap_or_default()
        .iter()
        .find(|container| !is_up(container));
    match (waiting, phase) {
        (Some(container), _) => not_up(container),
        (None, Phase::Pending) => "it is Pending".to_owned(),
        (None, Phase::Ended) => "it has ended".to_owned(),
        (None, Phase::Running | Phase::Unknown) => "its phase is not known".to_owned(),
    }
}

fn is_up(container: &ContainerStatus) -> bool {
    let state = container.state.as_ref();
    container.ready && state.is_some_and(|state| state.running.is_some())
}

fn not_up(container: &ContainerStatus) -> String {
    let name = &container.name;
    let state = container.state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.clone());
    let message = waiting.and_then(|waiting| waiting.message.clone());
    match (reason, message) {
        (Some(reason), Some(message)) => format!("container {name} waits: {reason}: {message}"),
        (Some(reason), None) => format!("container {name} waits: {reason}"),
        (None, _) if state.is_some_and(|state| state.terminated.is_some()) => {
            format!("container {name} has ended")
        }
        (None, _) => format!("container {name} is not ready"),
    }
}

fn was_started(container: &ContainerStatus) -> bool {
    let is = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| {
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    container.started == Some(true) || is(container.state.as_ref()) || is(container.last_state.as_ref())
}

fn stuck(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    STUCK.contains(&reason).then(|| not_up(container))
}
