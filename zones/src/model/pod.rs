//! A pod, reduced to the fields that decisions depend on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::labels::label::CONTROLLER_REVISION;
use serde::Deserialize;
use serde_json::Value;

/// A pod, as read from the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; empty if absent.
    pub uid: String,
    /// `metadata.resourceVersion` if the pod is stuck ([`Pod::stuck`]); not needed otherwise.
    pub stuck_version: Option<String>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// The owner reference with `controller: true`.
    pub controller: Option<Owner>,
    /// `status.phase`.
    pub phase: String,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// `status.containerStatuses`; init containers are left out.
    pub containers: Vec<Container>,
    /// The condition Ready.
    pub ready: Option<ReadyCondition>,
    /// The scheduler's message if the pod has no node.
    pub unscheduled: Option<String>,
}

/// The controller owner reference of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Owner {
    /// Kind of the owner, such as StatefulSet.
    #[serde(default)]
    pub kind: String,
    /// Name of the owner, in the namespace of the pod.
    #[serde(default)]
    pub name: String,
    /// The uid of the owner, to distinguish it from others of the same name.
    #[serde(default)]
    pub uid: String,
    /// Whether the owner is the controller; always true if it was read from a pod.
    #[serde(default)]
    pub controller: bool,
}

/// The state of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Name of the container.
    pub name: String,
    /// Whether the readiness probe succeeds.
    pub ready: bool,
    /// Whether the container is running.
    pub running: bool,
    /// The reason for waiting, such as CrashLoopBackOff, and its message.
    pub waiting: Option<(String, String)>,
    /// Whether the container has ever run.
    pub was_started: bool,
}

/// The condition Ready of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Whether the status of the condition is `True`.
    pub holds: bool,
    /// The message of the condition.
    pub message: String,
    /// `lastTransitionTime`, if it is valid.
    pub since: Option<Timestamp>,
}

impl Pod {
    /// Reads a pod as the API server returns it.
    pub fn from_value(value: &Value) -> Result<Self, serde_json::Error> {
        let raw = Raw::deserialize(value)?;
        let mut conditions = raw.status.conditions.unwrap_or_default();
        let unscheduled = conditions
            .iter()
            .position(|condition| condition.kind == "PodScheduled" && condition.status != "True")
            .map(|index| conditions.swap_remove(index).message);
        let condition = conditions.into_iter().find(|condition| condition.kind == "Ready");
        let mut owners = raw.metadata.owner_references.unwrap_or_default().into_iter();
        let mut pod = Self {
            name: raw.metadata.name,
            uid: raw.metadata.uid,
            stuck_version: None,
            labels: raw.metadata.labels.unwrap_or_default(),
            annotations: raw.metadata.annotations.unwrap_or_default(),
            controller: owners.find(|owner| owner.controller),
            phase: raw.status.phase,
            terminating: raw.metadata.deletion_timestamp.is_some(),
            containers: raw
                .status
                .container_statuses
                .unwrap_or_default()
                .into_iter()
                .map(RawContainer::row)
                .collect(),
            ready: condition.map(|condition| ReadyCondition {
                holds: condition.status == "True",
                message: condition.message,
                since: condition.last_transition_time.and_then(|time| time.parse().ok()),
            }),
            unscheduled,
        };
        pod.stuck_version = raw.metadata.resource_version.filter(|_| pod.stuck().is_some());
        Ok(pod)
    }

    /// The template revision that the pod was created from.
    pub fn revision(&self) -> Option<&str> {
        self.labels.get(CONTROLLER_REVISION).map(String::as_str)
    }

    /// Whether the pod is available: phase Running, not being deleted, every container ready and running, and the
    /// condition Ready is not false (readiness gates, a lost node).
    pub fn is_available(&self) -> bool {
        self.unavailable().is_none()
    }

    /// Why the pod is not available, if so.
    pub fn unavailable(&self) -> Option<String> {
        if self.terminating {
            return Some("it is being deleted".to_owned());
        }
        if let Some(message) = &self.unscheduled {
            return Some(format!("it is not scheduled: {message}"));
        }
        if let Some(container) = self.containers.iter().find(|container| !container.is_up()) {
            return Some(container.trouble());
        }
        if self.phase != "Running" {
            let phase = if self.phase.is_empty() {
                "not known"
            } else {
                &self.phase
            };
            return Some(format!("its phase is {phase}"));
        }
        let ready = self.ready.as_ref().filter(|ready| !ready.holds)?;
        Some(match ready.message.as_str() {
            "" => "its condition Ready is not True".to_owned(),
            message => format!("it is not Ready: {message}"),
        })
    }

    /// Why the pod does not become ready without intervention, if so: its image or configuration is wrong, or it
    /// crashes on each start.
    pub fn stuck(&self) -> Option<String> {
        let is_stuck = |container: &&Container| {
            let waiting = container.waiting.as_ref();
            waiting.is_some_and(|(reason, _)| STUCK.contains(&reason.as_str()))
        };
        self.containers.iter().find(is_stuck).map(Container::trouble)
    }

    /// Whether one of its containers has ever run.
    pub fn was_started(&self) -> bool {
        self.containers.iter().any(|container| container.was_started)
    }
}

impl Container {
    fn is_up(&self) -> bool {
        self.ready && self.running
    }

    fn trouble(&self) -> String {
        let name = &self.name;
        match &self.waiting {
            Some((reason, message)) if message.is_empty() => format!("container {name} waits: {reason}"),
            Some((reason, message)) => format!("container {name} waits: {reason}: {message}"),
            None => format!("container {name} is not ready"),
        }
    }
}

/// A reason for waiting that does not resolve with time.
const STUCK: [&str; 6] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMetadata {
    name: String,
    uid: String,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<Owner>>,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    phase: String,
    container_statuses: Option<Vec<RawContainer>>,
    conditions: Option<Vec<RawCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[serde(rename_all = "camelCase")]
struct RawContainer {
    name: String,
    ready: bool,
    started: Option<bool>,
    state: RawState,
    last_state: RawState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawState {
    running: Option<Value>,
    terminated: Option<Value>,
    waiting: Option<RawWaiting>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawWaiting {
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
    last_transition_time: Option<String>,
}

impl RawContainer {
    fn row(self) -> Container {
        let ran = |state: &RawState| state.running.is_some() || state.terminated.is_some();
        Container {
            was_started: self.started == Some(true) || ran(&self.state) || ran(&self.last_state),
            name: self.name,
            ready: self.ready,
            running: self.state.running.is_some(),
            waiting: self
                .state
                .waiting
                .map(|waiting| (waiting.reason, waiting.message)),
        }
    }
}
