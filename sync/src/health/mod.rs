//! Health of objects by the rules of kstatus.
//!
//! [`of`] looks at one object and says where it stands; it is pure, and the same as the kstatus library with Flux's stricter
//! rule for Jobs (a Job is current when it completed, not when it runs), without waiting for pods of a `DaemonSet` that are
//! replaced by hand only, and with the words "paused" and "suspended" where they are the reason. The library itself makes the
//! fixtures of the tests. [`check`] reads live objects and asks their pods for the cause; [`report`] puts the first unhealthy object and its
//! cause into words.
//!
//! ```text
//!   live object ─► of: deletion, generation, Reconciling, Stalled ─► rule of its kind ─► Ready ─► current
//!   ids ─► check: 8 reads at a time ─► of ─► evidence ─► the first that is not well ─► its pods ─► Report
//! ```
//!
//! Invariant: what cannot be read as expected is no failure: a failure is what a controller says, and nothing else.

pub mod check;
mod dependencies;
pub mod evidence;
mod expressions;
mod fields;
mod judged;
mod pods;
pub mod report;
mod workloads;
mod zones;

use std::sync::Arc;

use jiff::Timestamp;
use muster_health::Expressions;
use serde_json::Value;

pub use self::expressions::NOT_BOOLEAN;

use self::fields::{conditions, integer, text};

/// Where an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its controller has not finished.
    InProgress,
    /// It is as its specification says.
    Current,
    /// Its controller gave up, or says that it cannot go on.
    Failed,
    /// It is being deleted.
    Terminating,
    /// It is not there.
    NotFound,
}

impl State {
    /// The word of kstatus.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "InProgress",
            Self::Current => "Current",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::NotFound => "NotFound",
        }
    }
}

/// What is known about the health of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Where it stands.
    pub state: State,
    /// One word for the cause; empty for a current object.
    pub reason: String,
    /// The cause for people.
    pub message: String,
    /// Whether waiting longer is of no use: true only for a Failed that kstatus calls stalled.
    pub terminal: bool,
}

impl Health {
    /// Nothing is wrong.
    pub fn current(message: impl Into<String>) -> Self {
        Self {
            state: State::Current,
            reason: String::new(),
            message: message.into(),
            terminal: false,
        }
    }

    /// Not yet.
    pub fn in_progress(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            state: State::InProgress,
            reason: reason.into(),
            message: message.into(),
            terminal: false,
        }
    }

    /// Failed for good.
    pub fn stalled(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            state: State::Failed,
            reason: reason.into(),
            message: message.into(),
            terminal: true,
        }
    }

    /// Failed in a way that may pass by itself: a container that crashes may come up at its next start.
    pub fn failing(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            state: State::Failed,
            reason: reason.into(),
            message: message.into(),
            terminal: false,
        }
    }

    /// Not there.
    pub fn not_found() -> Self {
        Self {
            state: State::NotFound,
            reason: "NotFound".into(),
            message: "Resource not found".into(),
            terminal: false,
        }
    }

    /// The same, with the reason in its spec that it does not go on.
    fn because(mut self, why: &str) -> Self {
        self.message = format!("{}: {why}", self.message);
        self
    }

    /// Whether there is nothing left to wait for.
    pub fn is_current(&self) -> bool {
        self.state == State::Current
    }
}

/// The health of an object as it was read at `now`.
pub fn of(object: &Value, now: Timestamp) -> Health {
    generic(object)
        .or_else(|| by_kind(object, now))
        .or_else(|| ready(object))
        .unwrap_or_else(|| Health::current("Resource is current"))
}

/// The health of an object by the expressions of its kind, or by the rules of its kind without them; whether there is evidence is another
/// question.
pub async fn judge(object: &Value, now: Timestamp, by: Option<&Arc<Expressions>>) -> Health {
    match by {
        Some(expressions) => expressions::judge(object, expressions, false).await.health,
        None => of(object, now),
    }
}

/// What deletion, generations and the conditions of kstatus say about an object of any kind.
fn generic(object: &Value) -> Option<Health> {
    if let Some(terminating) = terminating(object) {
        return Some(terminating);
    }
    if let (Some(generation), Some(observed)) = (
        integer(object, "/metadata/generation"),
        integer(object, "/status/observedGeneration"),
    ) && generation != observed
    {
        let kind = text(object, "/kind").unwrap_or_default();
        return Some(Health::in_progress(
            "LatestGenerationNotObserved",
            format!("{kind} generation is {generation}, but latest observed generation is {observed}"),
        ));
    }
    conditions(object).find_map(|condition| match (condition.kind, condition.status) {
        ("Reconciling", "True") => Some(Health::in_progress(condition.reason, condition.message)),
        ("Stalled", "True") if zones::is_about_a_set(object, condition.reason) => {
            Some(Health::in_progress(condition.reason, condition.message))
        }
        ("Stalled", "True") => Some(Health::stalled(condition.reason, condition.message)),
        _ => None,
    })
}

/// An object that is being deleted is nothing else.
fn terminating(object: &Value) -> Option<Health> {
    let deleted = text(object, "/metadata/deletionTimestamp").is_some_and(|time| !time.is_empty());
    deleted.then(|| Health {
        state: State::Terminating,
        reason: "Terminating".into(),
        message: "Resource scheduled for deletion".into(),
        terminal: false,
    })
}

/// The rule of a kind that has one.
fn by_kind(object: &Value, now: Timestamp) -> Option<Health> {
    let api_version = text(object, "/apiVersion").unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let health = match (group, text(object, "/kind").unwrap_or_default()) {
        ("apps" | "extensions", "Deployment") => workloads::deployment(object),
        ("apps", "StatefulSet") => workloads::stateful_set(object),
        ("apps" | "extensions", "DaemonSet") => workloads::daemon_set(object),
        ("apps" | "extensions", "ReplicaSet") => workloads::replica_set(object),
        ("batch", "Job") => workloads::job(object),
        ("", "Pod") => pods::pod(object, now),
        ("", "Service") => dependencies::service(object),
        ("", "PersistentVolumeClaim") => dependencies::claim(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => dependencies::definition(object),
        ("policy", "PodDisruptionBudget") => Health::current("AllowedDisruptions has been computed."),
        ("", "Secret" | "ConfigMap") | ("batch", "CronJob") => Health::current("Resource is always ready"),
        _ => return None,
    };
    Some(health)
}

/// A `Ready` condition, for kinds that have no rule of their own.
fn ready(object: &Value) -> Option<Health> {
    conditions(object)
        .filter(|condition| condition.kind == "Ready")
        .find_map(|ready| match ready.status {
            "True" => Some(Health::current("Resource is Ready")),
            "False" | "Unknown" => Some(Health::in_progress(ready.reason, ready.message)),
            // A word of the kind's own, which nobody else can know.
            _ => None,
        })
}
