//! The operation of a group while a set is scaled down: only one at a time, and nothing else in parallel.
//!
//! ```text
//!   taken ─► pods prepared ─► allowed ─► the change ─► its pods are gone ─► ended
//!     │            └─ failed ─► left (no review holds it) ─► un-prepared ─► released
//!     └─ the change never comes, or another one ─► left ─► un-prepared ─► released
//! ```
//!
//! A review holds the operation by its uid. Before pods are un-prepared the uids are removed by compare-and-swap: no
//! review joins an operation without uids, so that no pod is un-prepared while a review that relies on it is allowed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::zonerollout::{MAX_SETS, Operation, OperationKind};

use super::{
    Facts, Settings,
    pods::{Ask, Method},
    preparation::Preparation,
    times::seconds,
};
use crate::model::Group;

/// Prefix of the holder by which the controller holds an operation, followed by a slash and the time: the controller's
/// own patch is reviewed like any other, and joins the operation. Another process may send the same patch, so each
/// attempt has its own holder.
pub const CONTROLLER: &str = "muster-zones";
/// How long an allowed change may take, in addition to the timeout of the review.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// A downscale of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downscale {
    /// Name of the set.
    pub set: String,
    /// The uid of the set.
    pub set_uid: String,
    /// The generation of the set before the change.
    pub generation: i64,
    /// Number of replicas before the change.
    pub from: u32,
    /// Number of replicas after the change.
    pub to: u32,
}

/// The state of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationState {
    /// The operation is in progress.
    Holds,
    /// The set has the new number of replicas, and the surplus pods are gone.
    Done,
    /// The set no longer exists.
    Void,
    /// The change did not happen in time, or a different one did: pods that stay must be un-prepared.
    Abandoned,
}

/// The state of an operation in a fresh view of its group.
pub fn operation_state(operation: &Operation, group: &Group, now: Timestamp) -> OperationState {
    if operation.kind != OperationKind::Downscaling {
        return OperationState::Holds;
    }
    let Some(set) = group.sets.iter().find(|set| set.uid == operation.set_uid) else {
        return OperationState::Void;
    };
    let to = operation.to.unwrap_or_default();
    let pods = u32::try_from(set.pods.len()).unwrap_or(u32::MAX);
    let is_changed = set.generation > operation.generation.unwrap_or_default();
    if set.desired() == to && is_changed {
        return if set.is_observed() && pods <= to {
            OperationState::Done
        } else {
            OperationState::Holds
        };
    }
    let is_over = if is_changed {
        set.is_observed() && pods >= set.expected_pods()
    } else {
        operation.expires.as_ref().is_some_and(|expires| now >= expires.0)
    };
    if is_over {
        OperationState::Abandoned
    } else {
        OperationState::Holds
    }
}

/// The result of taking the operation for a review or for the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The operation including the new holder.
    By(Operation),
    /// Another operation is in progress.
    Busy(Operation),
}

/// The operation for a downscale, held by `holder`: a new one, or the current one if it is the same downscale.
pub fn take(
    group: &Group,
    downscale: &Downscale,
    holder: &str,
    timeout: SignedDuration,
    now: Timestamp,
) -> Taken {
    let expires = timeout.saturating_add(GRACE);
    let expires = now.checked_add(expires).unwrap_or(Timestamp::MAX);
    let mut taken = Operation {
        kind: OperationKind::Downscaling,
        set: downscale.set.clone(),
        set_uid: downscale.set_uid.clone(),
        from: Some(downscale.from),
        to: Some(downscale.to),
        generation: Some(downscale.generation),
        admission_uids: Vec::new(),
        expires: Some(Time(expires)),
    };
    if let Some(present) = &group.status.operation {
        if is(present, downscale) && !present.admission_uids.is_empty() {
            taken.admission_uids.clone_from(&present.admission_uids);
            taken.generation = present.generation;
        } else {
            return Taken::Busy(present.clone());
        }
    }
    taken.admission_uids.retain(|uid| uid != holder);
    if taken.admission_uids.len() >= MAX_SETS {
        taken.admission_uids.remove(0);
    }
    taken.admission_uids.push(holder.to_owned());
    Taken::By(taken)
}

/// The holder name of an attempt by the controller.
pub fn holder(now: Timestamp) -> String {
    format!("{CONTROLLER}/{now}")
}

/// Whether the holder is an attempt by the controller.
pub fn is_of_controller(uid: &str) -> bool {
    uid.strip_prefix(CONTROLLER)
        .is_some_and(|instant| instant.starts_with('/'))
}

/// Whether the operation is this downscale.
pub fn is(operation: &Operation, downscale: &Downscale) -> bool {
    operation.kind == OperationKind::Downscaling
        && operation.set_uid == downscale.set_uid
        && (operation.from, operation.to) == (Some(downscale.from), Some(downscale.to))
}

/// Whether `holder` holds the operation of this downscale.
pub fn is_held(operation: Option<&Operation>, downscale: &Downscale, holder: &str) -> bool {
    operation.is_some_and(|operation| {
        is(operation, downscale) && operation.admission_uids.iter().any(|uid| uid == holder)
    })
}

/// Ends the recorded operation if it is complete or its set no longer exists. On completion, `now` is recorded as the
/// time of the last downscale.
pub fn settle(group: &mut Group, now: Timestamp) {
    let Some(operation) = &group.status.operation else {
        return;
    };
    match operation_state(operation, group, now) {
        OperationState::Holds | OperationState::Abandoned => return,
        OperationState::Void => {}
        OperationState::Done => {
            let set = group.sets.iter().find(|set| set.uid == operation.set_uid);
            if let Some(set) = set.filter(|set| Preparation::is_asked_for(set)) {
                let set = set.name.clone();
                group.status.last_downscale.insert(set, Time(seconds(now)));
            }
        }
    }
    group.status.operation = None;
}

/// Advances the recorded operation: ends it, or removes its holders if it is abandoned. Returns the requests to
/// un-prepare pods that are required before it is released.
pub fn advance(group: &mut Group, facts: &Facts, settings: &Settings, now: Timestamp) -> Vec<Ask> {
    let Some(operation) = &group.status.operation else {
        return Vec::new();
    };
    let mut standing = operation_state(operation, group, now);
    let refused = facts.refused.as_ref().and_then(|refused| refused.holder.as_ref());
    if let (OperationState::Holds, Some(refused)) = (standing, refused)
        && operation.admission_uids.contains(refused)
        && is_as_it_was(operation, group)
    {
        if operation.admission_uids.len() > 1 {
            if let Some(operation) = &mut group.status.operation {
                operation.admission_uids.retain(|uid| uid != refused);
            }
            return Vec::new();
        }
        standing = OperationState::Abandoned;
    }
    match standing {
        OperationState::Holds => return Vec::new(),
        OperationState::Void | OperationState::Done => {
            settle(group, now);
            return Vec::new();
        }
        OperationState::Abandoned => {
            let mut asks = undo(operation, group, settings);
            if !asks.is_empty() && !operation.admission_uids.is_empty() {
                let is_ours = operation.admission_uids.iter().all(|uid| is_of_controller(uid));
                if let Some(operation) = &mut group.status.operation {
                    operation.admission_uids.clear();
                    if is_ours {
                        operation.expires = Some(Time(now));
                    }
                }
                return Vec::new();
            }
            // Until the expiry, an earlier review may still ask pods to prepare.
            let expires = operation.expires.as_ref();
            if !asks.is_empty() && expires.is_some_and(|expires| now < expires.0) {
                return Vec::new();
            }
            asks.retain(|ask| !facts.answers.contains_key(ask));
            if !asks.is_empty() {
                return asks;
            }
        }
    }
    group.status.operation = None;
    Vec::new()
}

/// Whether the downscale's set is unchanged since before the downscale.
fn is_as_it_was(operation: &Operation, group: &Group) -> bool {
    let set = group.sets.iter().find(|set| set.uid == operation.set_uid);
    set.is_some_and(|set| set.generation <= operation.generation.unwrap_or_default())
}

/// The requests that un-prepare the pods that stay.
fn undo(operation: &Operation, group: &Group, settings: &Settings) -> Vec<Ask> {
    let set = group.sets.iter().find(|set| set.uid == operation.set_uid);
    let (Some(set), Some(from), Some(to)) = (set, operation.from, operation.to) else {
        return Vec::new();
    };
    let Some(Ok(preparation)) = Preparation::of(&set.labels, &set.annotations, &set.service_name) else {
        return Vec::new();
    };
    let stay = to..from.min(set.desired());
    preparation
        .asks(set, &stay, Method::Delete, settings)
        .unwrap_or_default() // no pod was asked at an invalid address
}
