//! The rule for pods, and the cause that a pod gives for not being ready.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    Health,
    fields::{condition, list, string_at},
};

/// How long a pod may be without a node before it is reported as unschedulable.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);

/// Waiting reasons of a normal pod start, which are not a cause.
const ORDINARY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

pub(super) fn pod(object: &Value, now: Timestamp) -> Health {
    match string_at(object, "/status/phase").unwrap_or_default() {
        "Succeeded" => Health::current("Pod has completed successfully"),
        "Failed" => Health::current("Pod has completed, but not successfully"),
        "Running" => running(object),
        "Pending" => pending(object, now),
        "" => Health::in_progress("PodNotObserved", "Pod phase not available"),
        phase => Health::in_progress("PodPhaseUnknown", format!("Pod phase is {phase}")),
    }
}

/// Why a pod does not run, from its container statuses: `container app: ImagePullBackOff (Back-off pulling …)`. `None`
/// if it is ready, is starting normally, or gives no cause.
pub(super) fn cause(pod: &Value) -> Option<String> {
    let containers = list(pod, "/status/initContainerStatuses").chain(list(pod, "/status/containerStatuses"));
    containers
        .into_iter()
        .find_map(container_cause)
        .or_else(|| unscheduled(pod))
}

fn running(object: &Value) -> Health {
    if condition(object, "Ready").is_some_and(|ready| ready.status == "True") {
        return Health::current("Pod is Ready");
    }
    let crashing: Vec<&str> = list(object, "/status/containerStatuses")
        .filter(|container| string_at(container, "/state/waiting/reason") == Some("CrashLoopBackOff"))
        .filter_map(|container| string_at(container, "/name"))
        .collect();
    if crashing.is_empty() {
        Health::in_progress("PodRunningNotReady", "Pod is running but is not Ready")
    } else {
        Health::failing(
            "ContainerCrashLooping",
            format!("Containers in CrashLoop state: {}", crashing.join(",")),
        )
    }
}

fn pending(object: &Value, now: Timestamp) -> Health {
    let unschedulable = condition(object, "PodScheduled")
        .is_some_and(|scheduled| scheduled.status == "False" && scheduled.reason == "Unschedulable");
    if !unschedulable {
        return Health::in_progress("PodPending", "Pod is in the Pending phase");
    }
    let created =
        string_at(object, "/metadata/creationTimestamp").and_then(|time| time.parse::<Timestamp>().ok());
    // A pod without a valid creation time gets no grace period: its age is unknown.
    if created.is_some_and(|created| now.duration_since(created) < SCHEDULE_WINDOW) {
        Health::in_progress("PodNotScheduled", "Pod has not been scheduled")
    } else {
        Health::failing("PodUnschedulable", "Pod could not be scheduled")
    }
}

fn container_cause(container: &Value) -> Option<String> {
    let name = string_at(container, "/name").unwrap_or_default();
    let (state, reason) = ["/state/waiting", "/state/terminated"]
        .into_iter()
        .find_map(|path| {
            let state = container.pointer(path)?;
            Some((state, string_at(state, "/reason")?))
        })?;
    if ORDINARY.contains(&reason) || reason == "Completed" {
        return None;
    }
    Some(
        match string_at(state, "/message").filter(|message| !message.is_empty()) {
            Some(message) => format!("container {name}: {reason} ({message})"),
            None => format!("container {name}: {reason}"),
        },
    )
}

fn unscheduled(pod: &Value) -> Option<String> {
    let scheduled = condition(pod, "PodScheduled")?;
    (scheduled.status == "False").then(|| format!("{} ({})", scheduled.reason, scheduled.message))
}
