//! Determines since when a pod is ready, for the delay between zones.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::model::{Pod, READY_TIME_ANNOTATION};

/// The ready time of a pod, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyTime {
    /// Whether the pod is ready now.
    pub ready: bool,
    /// The ready time, if the pod is ready and its annotation is valid; otherwise the delay counts from now.
    pub since: Option<Timestamp>,
}

/// Parses the annotation `grafana.com/ready-time` of a pod.
pub fn ready_time(pod: &Pod) -> ReadyTime {
    let ready = pod.is_available();
    let annotation = pod.annotations.get(READY_TIME_ANNOTATION);
    ReadyTime {
        ready,
        since: annotation.filter(|_| ready).and_then(|text| text.parse().ok()),
    }
}

/// The strategic merge patch that maintains the annotation: set when a pod is first found ready, removed when it is
/// found not ready. A value from another writer is kept, even if it is invalid: the pod then counts as not ready until
/// it has been found not ready.
pub fn ready_time_patch(pod: &Pod, now: Timestamp) -> Option<Value> {
    let written = pod.annotations.contains_key(READY_TIME_ANNOTATION);
    let value = match (pod.is_available(), written) {
        (true, false) => json!(text(now)),
        (false, true) => Value::Null,
        _ => return None,
    };
    Some(json!({"metadata": {"annotations": {READY_TIME_ANNOTATION: value}}}))
}

/// Whether a pod in another zone counts as ready: it is ready, no eviction of it was just allowed, and it has been
/// ready for strictly longer than the delay. The later of the annotation and the condition Ready counts; without either
/// the pod does not count as ready.
pub fn counts_as_ready(pod: &Pod, eviction_pending: bool, delay: SignedDuration, now: Timestamp) -> bool {
    if eviction_pending || !pod.is_available() {
        return false;
    }
    if delay.is_zero() {
        return true;
    }
    let annotated = pod.annotations.get(READY_TIME_ANNOTATION);
    let annotation = ready_time(pod).since;
    if annotated.is_some() && annotation.is_none() {
        return false;
    }
    let condition = pod.ready.as_ref().and_then(|condition| condition.since);
    annotation
        .max(condition)
        .is_some_and(|since| now.duration_since(since) > delay)
}

/// RFC 3339 with whole seconds, as in Kubernetes.
fn text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
