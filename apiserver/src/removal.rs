//! Deletion as a decision: what an object becomes when it is deleted, and when it is really gone.

use jiff::Timestamp;
use serde_json::Value;

use crate::clock::seconds;
use crate::meta;
use crate::resources::Resource;

/// The owner goes after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The dependents lose their reference before the owner goes.
pub(crate) const ORPHAN: &str = "orphan";

/// What is to happen to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// The client did not say: what the finalizers on the object say, else background.
    Unsaid,
    /// They are deleted after the owner.
    Background,
    /// They are deleted before the owner.
    Foreground,
    /// They stay.
    Orphan,
}

/// The grace period of pods that name none, in seconds: the default of the kind.
const POD_GRACE: i64 = 30;

/// What the object becomes by being deleted; `None` if that is being done already.
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
            meta::set(&mut object, "deletionGracePeriodSeconds", grace.into());
            return Some(object);
        }
        return (set || is_due(resource, &object)).then_some(object);
    }
    let end = now
        .saturating_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or(now);
    meta::set(&mut object, "deletionTimestamp", seconds(end).into());
    meta::set(&mut object, "deletionGracePeriodSeconds", grace.into());
    if meta::generation(live) > 0 {
        meta::set(&mut object, "generation", (meta::generation(live) + 1).into());
    }
    if resource.is("", "Namespace") {
        object["status"]["phase"] = "Terminating".into();
    }
    Some(object)
}

/// Only pods on a node take time to stop; all else goes at once.
fn grace_of(resource: &Resource, live: &Value, asked: Option<i64>) -> i64 {
    let is_placed = !live["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let is_over = matches!(live["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !resource.is("", "Pod") || !is_placed || is_over {
        return 0;
    }
    let own = live["spec"]["terminationGracePeriodSeconds"].as_i64();
    asked.filter(|seconds| *seconds >= 0).or(own).unwrap_or(POD_GRACE)
}

/// Whether nothing holds a terminating object any more.
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

/// Whether an object is being deleted and its dependents come first.
pub(crate) fn waits_for_dependents(object: &Value) -> bool {
    meta::is_terminating(object)
        && (meta::has_finalizer(object, FOREGROUND) || meta::has_finalizer(object, ORPHAN))
}
