//! A pod, as far as decisions depend on it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; empty where the object has none.
    pub uid: String,
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
}

/// The controller of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Owner {
    /// Kind, such as StatefulSet.
    #[serde(default)]
    pub kind: String,
    /// Name in the namespace of the pod.
    #[serde(default)]
    pub name: String,
    /// The uid that tells it from its namesakes.
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    controller: bool,
}

/// The state of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Name in the pod.
    pub name: String,
    /// Whether its readiness probe holds.
    pub ready: bool,
    /// Whether it is running now.
    pub running: bool,
    /// The reason why it waits, such as CrashLoopBackOff, and its message.
    pub waiting: Option<(String, String)>,
}

/// The condition Ready of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Whether its status is `True`.
    pub holds: bool,
    /// `lastTransitionTime`, where it can be read.
    pub since: Option<Timestamp>,
}

impl Pod {
    /// Reads a pod as the API server gives it.
    pub fn from_value(value: &Value) -> Result<Self, serde_json::Error> {
        let raw = Raw::deserialize(value)?;
        let condition = raw
            .status
            .conditions
            .unwrap_or_default()
            .into_iter()
            .find(|condition| condition.kind == "Ready");
        let mut owners = raw.metadata.owner_references.unwrap_or_default().into_iter();
        Ok(Self {
            name: raw.metadata.name,
            uid: raw.metadata.uid,
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
                since: condition.last_transition_time.and_then(|time| time.parse().ok()),
            }),
        })
    }

    /// Whether the pod serves: phase Running, not being deleted, every container ready and running, and Kubernetes does not say
    /// otherwise in the condition Ready (a readiness gate, a node that is gone).
    pub fn is_available(&self) -> bool {
        let containers = self
            .containers
            .iter()
            .all(|container| container.ready && container.running);
        let condition = self.ready.as_ref().is_none_or(|condition| condition.holds);
        self.phase == "Running" && !self.terminating && containers && condition
    }
}

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
struct RawContainer {
    name: String,
    ready: bool,
    state: RawState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawState {
    running: Option<Value>,
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
    last_transition_time: Option<String>,
}

impl RawContainer {
    fn row(self) -> Container {
        Container {
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
