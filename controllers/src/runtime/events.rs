//! Events (events.k8s.io/v1) about our objects, for `kubectl describe` and `kubectl get events`. The caller publishes
//! them only on changes. An event that cannot be written is logged and lost: it is a message, not a state.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event as ApiEvent},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Client, Resource, api::PostParams};
use tracing::warn;

use super::Api;
use super::{Clock, call, call::error_chain};

/// The API server's limit for a note, in bytes.
const NOTE_MAX: usize = 1_024;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Informational.
    Normal,
    /// Needs attention.
    Warning,
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `Normal` or `Warning`.
    pub type_: EventType,
    /// The reason in PascalCase (`RolloutStarted`).
    pub reason: String,
    /// The action in PascalCase (`Rollout`).
    pub action: String,
    /// The message: what, where, what next. Cut to 1 KiB.
    pub note: String,
}

impl Event {
    /// An event of type `Normal`.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            type_: EventType::Normal,
            reason: reason.into(),
            action: action.into(),
            note: note.into(),
        }
    }

    /// An event of type `Warning`.
    pub fn warning(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            type_: EventType::Warning,
            ..Self::normal(reason, action, note)
        }
    }
}

/// Writes events. Clones share the counter that makes their names unique.
#[derive(Clone)]
pub struct Events {
    client: Client,
    controller: String,
    instance: String,
    clock: Clock,
    sequence: Arc<AtomicU64>,
}

impl Events {
    /// `controller` and `instance` are the events' `reportingController` and `reportingInstance`.
    pub fn new(
        client: Client,
        controller: impl Into<String>,
        instance: impl Into<String>,
        clock: Clock,
    ) -> Self {
        Self {
            client,
            controller: controller.into(),
            instance: instance.into(),
            clock,
            sequence: Arc::default(),
        }
    }

    /// Writes an event about `object`.
    pub async fn publish<K>(&self, object: &K, event: Event)
    where
        K: Resource<DynamicType = ()>,
    {
        self.publish_about(object.object_ref(&()), event).await;
    }

    /// Writes an event about the object of a reference.
    pub async fn publish_about(&self, regarding: ObjectReference, event: Event) {
        let namespace = regarding
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());
        let events: Api<ApiEvent> = Api::namespaced(self.client.clone(), &namespace);
        let what = format!(
            "writing the event {} about {} {namespace}/{}",
            event.reason,
            text(regarding.kind.as_ref()),
            text(regarding.name.as_ref())
        );
        let object = self.object(namespace, regarding, event);
        if let Err(error) = call(what, events.create(&PostParams::default(), &object)).await {
            warn!(error = error_chain(&error), "an event is dropped");
        }
    }

    fn object(&self, namespace: String, regarding: ObjectReference, event: Event) -> ApiEvent {
        let now = self.clock.now();
        let count = self.sequence.fetch_add(1, Ordering::Relaxed);
        // Unique within this process; of several replicas only the leader writes.
        let suffix = now.as_nanosecond() + i128::from(count % 1_000_000);
        // Named like those of other recorders, `<object>.<hexadecimal>`, and cut to fit the limit of 253.
        let stem: String = text(regarding.name.as_ref()).chars().take(200).collect();
        ApiEvent {
            metadata: ObjectMeta {
                name: Some(format!("{stem}.{suffix:x}")),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            action: Some(event.action),
            event_time: Some(MicroTime(now)),
            note: Some(cut(event.note, NOTE_MAX)),
            reason: Some(event.reason),
            regarding: Some(regarding),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(match event.type_ {
                EventType::Normal => "Normal".to_owned(),
                EventType::Warning => "Warning".to_owned(),
            }),
            ..ApiEvent::default()
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("controller", &self.controller)
            .finish_non_exhaustive()
    }
}

/// A text of at most `max` bytes, cut between characters, with an ellipsis if it was cut.
pub fn cut(mut text: String, max: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
    text
}

fn text(part: Option<&String>) -> &str {
    part.map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        assert_eq!(cut("short".to_owned(), 10), "short");
        assert_eq!(cut("ääääää".to_owned(), 8), "ää…");
    }
}
