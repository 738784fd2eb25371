//! Conditions: construction, merging, and comparison that ignores times.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Whether the object matches its spec; always present.
pub const READY: &str = "Ready";
/// Work is in progress; present only while true.
pub const RECONCILING: &str = "Reconciling";
/// No progress is possible until someone intervenes; present only while true.
pub const STALLED: &str = "Stalled";
/// On modules: the rollout is paused and nothing new starts; present only while true.
pub const PAUSED: &str = "Paused";
/// On modules: failures stopped the rollout; present only while true.
pub const HALTED: &str = "Halted";
/// On modules: the empty selector selects every cluster; present only while true.
pub const SELECTS_ALL: &str = "SelectsAll";
/// On modules: the tag now points to a commit other than the pinned one; present only while true.
pub const TAG_MOVED: &str = "TagMoved";
/// On Kustomizations: the applied objects are healthy. True, with reason [`crate::evidence::ASSUMED`] where evidence is
/// missing; Unknown until health is determined.
pub const HEALTHY: &str = "Healthy";
/// On Kustomizations: another Kustomization owns objects that this one declares too; present only while true.
pub const SHARED_OBJECT: &str = "SharedObject";
/// On Kustomizations with a plan: the state of the plan's run. The reason is the state of the run or, if the run
/// failed, the failure class.
pub const PLAN: &str = "Plan";
/// On ProxyAssemblages: the cluster is reachable.
pub const REACHABLE: &str = "Reachable";
/// The agent in the cluster is older than the controller.
pub const AGENT_OUTDATED: &str = "AgentOutdated";

/// On Nodes: every NodeModule that selects the Node is confirmed on it.
pub const NODE_CONFIGURED: &str = "fleet.muster.dev/NodeConfigured";

/// The maximum length of a condition's message, in bytes.
pub const MAX_MESSAGE: usize = 32_768;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The condition applies.
    True,
    /// The condition does not apply.
    False,
    /// The status is not known.
    Unknown,
}

impl Status {
    /// The status as Kubernetes writes it: `True`, `False` or `Unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The desired conditions of an object: Ready always, the others only when added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    ready: ConditionState,
    others: BTreeMap<&'static str, ConditionState>,
}

/// Status, reason and message of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConditionState {
    status: Status,
    reason: String,
    message: String,
}

impl Conditions {
    /// Starts a set of conditions with Ready.
    pub fn ready(status: Status, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            ready: ConditionState::new(status, reason, message),
            others: BTreeMap::new(),
        }
    }

    /// Adds Reconciling=True.
    #[must_use]
    pub fn reconciling(self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.with(RECONCILING, Status::True, reason, message)
    }

    /// Adds Stalled=True.
    #[must_use]
    pub fn stalled(self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        self.with(STALLED, Status::True, reason, message)
    }

    /// Adds another condition, replacing an earlier one of the same type. Only [`Conditions::ready`] sets Ready.
    #[must_use]
    pub fn with(
        mut self,
        type_: &'static str,
        status: Status,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        if type_ == READY {
            self.ready = ConditionState::new(status, reason, message);
        } else {
            self.others
                .insert(type_, ConditionState::new(status, reason, message));
        }
        self
    }

    /// The conditions to write: exactly these, Ready first, each with `generation` as its observedGeneration.
    /// `lastTransitionTime` is kept where the status did not change; otherwise it is `now`.
    pub fn merge(&self, current: &[Condition], generation: i64, now: Timestamp) -> Vec<Condition> {
        std::iter::once((READY, &self.ready))
            .chain(self.others.iter().map(|(type_, state)| (*type_, state)))
            .map(|(type_, state)| state.condition(type_, find(current, type_), generation, now))
            .collect()
    }
}

impl ConditionState {
    fn new(status: Status, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            message: bounded(&message.into(), MAX_MESSAGE).into_owned(),
        }
    }

    fn condition(
        &self,
        type_: &str,
        current: Option<&Condition>,
        generation: i64,
        now: Timestamp,
    ) -> Condition {
        let since = current
            .filter(|current| current.status == self.status.as_str())
            .map_or(Time(now), |current| current.last_transition_time.clone());
        Condition {
            last_transition_time: since,
            message: self.message.clone(),
            observed_generation: Some(generation),
            reason: self.reason.clone(),
            status: self.status.as_str().to_owned(),
            type_: type_.to_owned(),
        }
    }
}

/// The condition of the given type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of the given type exists and is True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Whether both contain the same conditions, regardless of order and times.
pub fn equal_apart_from_times(a: &[Condition], b: &[Condition]) -> bool {
    a.len() == b.len()
        && a.iter().all(|left| {
            find(b, &left.type_).is_some_and(|right| {
                left.status == right.status
                    && left.reason == right.reason
                    && left.message == right.message
                    && left.observed_generation == right.observed_generation
            })
        })
}

/// The text, truncated at a character boundary to at most `max` bytes; a truncated text ends with an ellipsis.
pub fn bounded(text: &str, max: usize) -> std::borrow::Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= max {
        return text.into();
    }
    let end = text.floor_char_boundary(max.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", &text[..end]).into()
}
