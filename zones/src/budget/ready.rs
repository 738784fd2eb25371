//! Since when a pod is ready: what the delay between zones counts from.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::model::{Pod, READY_TIME_ANNOTATION};

/// What is known of the time since which a pod is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyTime {
    /// Whether it is ready now.
    pub ready: bool,
    /// Since when, where the pod is ready and its annotation can be read; else it counts from now.
    pub since: Option<Timestamp>,
}

/// Reads the annotation `grafana.com/ready-time` of a pod.
pub fn ready_time(pod: &Pod) -> ReadyTime {
    let ready = pod.is_available();
    let annotation = pod.annotations.get(READY_TIME_ANNOTATION);
    ReadyTime {
        ready,
        since: annotation.filter(|_| ready).and_then(|text| text.parse().ok()),
    }
}

/// The strategic merge patch that keeps the annotation true: written when a pod is first found ready, removed when it is found not ready.
/// What another wrote there stays, also where it cannot be read: the pod then counts as not ready until it was found not ready.
pub fn ready_time_patch(pod: &Pod, now: Timestamp) -> Option<Value> {
    let written = pod.annotations.contains_key(READY_TIME_ANNOTATION);
    let value = match (pod.is_available(), written) {
        (true, false) => json!(text(now)),
        (false, true) => Value::Null,
        _ => return None,
    };
    Some(json!({"metadata": {"annotations": {READY_TIME_ANNOTATION: value}}}))
}

/// Whether a pod of another zone counts as ready: it is, its eviction was not just allowed, and it has been ready for strictly longer
/// than the delay. The later of the annotation and the condition Ready counts; without either it is not known, and it does not.
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

/// RFC 3339 with whole seconds, as Kubernetes writes times.
fn text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
