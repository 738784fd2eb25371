//! Deletion as a decision: what an object becomes when it is deleted, and when it is removed.

use jiff::Timestamp;
use serde_json::Value;

use crate::clock::seconds;
use crate::meta;
use crate::resources::Resource;

/// The owner is removed after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The dependents lose their owner reference before the owner is removed.
pub(crate) const ORPHAN: &str = "orphan";

/// How dependents are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// Not given by the client: decided by the finalizers on the object, else background.
    Unsaid,
    /// They are deleted after the owner.
    Background,
    /// They are deleted before the owner.
    Foreground,
    /// They are kept.
    Orphan,
}

/// Default grace period of pods, in seconds.
const POD_GRACE: i64 = 30;

/// The object marked for deletion; `None` if it is being deleted already.
pub(crate) fn doomed(
    resource: &Resource,
    live: &Value,
    propagation: Propagation,
    grace: Option<i64>,
    now: Timestamp,
) -> Option<Value> {
    let mut object = live.clone();
    let set = match propagation {
        Propagation::Unsaid => false,
        Propagation::Background => {
            let orphan = meta::remove_finalizer(&mut object, ORPHAN);
            meta::remove_finalizer(&mut object, FOREGROUND) || orphan
        }
        Propagation::Foreground => {
            let orphan = meta::remove_finalizer(&mut object, ORPHAN);
            meta::add_finalizer(&mut object, FOREGROUND) || orphan
        }
        Propagation::Orphan => {
            let foreground = meta::remove_finalizer(&mut object, FOREGROUND);
            meta::add_finalizer(&mut object, ORPHAN) || foreground
        }
    };
    let grace = grace_of(resource, live, grace);
    if meta::is_terminating(live) {
        let left = live["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or_default(); // absent: no grace
        if grace < left {
            meta::set_metadata(&mut object, "deletionGracePeriodSeconds", grace.into());
            return Some(object);
        }
        return (set || is_due(resource, &object)).then_some(object);
    }
    let end = now
        .saturating_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or(now);
    meta::set_metadata(&mut object, "deletionTimestamp", seconds(end).into());
    meta::set_metadata(&mut object, "deletionGracePeriodSeconds", grace.into());
    if meta::generation(live) > 0 {
        meta::set_metadata(&mut object, "generation", (meta::generation(live) + 1).into());
    }
    if resource.is("", "Namespace") {
        object["status"]["phase"] = "Terminating".into();
    }
    Some(object)
}

/// Only scheduled pods take time to stop; everything else is removed immediately.
fn grace_of(resource: &Resource, live: &Value, requested: Option<i64>) -> i64 {
    let is_placed = !live["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let is_over = matches!(live["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !resource.is("", "Pod") || !is_placed || is_over {
        return 0;
    }
    let own = live["spec"]["terminationGracePeriodSeconds"].as_i64();
    requested
        .filter(|seconds| *seconds >= 0)
        .or(own)
        .unwrap_or(POD_GRACE)
}

/// Whether a terminating object has nothing left to wait for.
pub(crate) fn is_due(resource: &Resource, object: &Value) -> bool {
    let held_by_namespace = resource.is("", "Namespace")
        && object["spec"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
    let held_by_node = resource.is("", "Pod")
        && object["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .is_some_and(|seconds| seconds > 0);
    meta::is_terminating(object)
        && meta::finalizers(object).next().is_none()
        && !held_by_namespace
        && !held_by_node
}

/// Whether an object is being deleted and waits for its dependents.
pub(crate) fn waits_for_dependents(object: &Value) -> bool {
    meta::is_terminating(object)
        && (meta::has_finalizer(object, FOREGROUND) || meta::has_finalizer(object, ORPHAN))
}
