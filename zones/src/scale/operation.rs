//! The operation of a group while a set is scaled down: one at a time, beside nothing else.
//!
//! ```text
//!   taken ─► pods prepared ─► allowed ─► the change ─► its pods are gone ─► ended
//!     │            └─ failed ─► left (no review holds it) ─► un-prepared ─► released
//!     └─ the change never comes, or another one ─► left ─► un-prepared ─► released
//! ```
//!
//! A review holds the operation by its uid. Before pods are un-prepared its uids are taken out, by compare-and-swap: no review joins an
//! operation without uids, so that no pod is un-prepared behind a review that is allowed.

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

/// By what the controller holds an operation, with the instant behind a slash: its own patch is reviewed as any other, and joins. Another process
/// may send the same patch, so that each try holds it by itself.
pub const CONTROLLER: &str = "muster-zones";
/// How long an allowed change may take, beyond the time that the review itself may take.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// A downscale of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downscale {
    /// The set.
    pub set: String,
    /// Its uid.
    pub set_uid: String,
    /// The generation of its spec before the change.
    pub generation: i64,
    /// Replicas before it.
    pub from: u32,
    /// Replicas after it.
    pub to: u32,
}

/// How an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is under way.
    Holds,
    /// The set has the replicas, and its pods are gone.
    Done,
    /// It no longer matters: the set is gone.
    Void,
    /// The change did not come in time, or another one came: pods that stay have to be un-prepared.
    Abandoned,
}

/// How an operation stands in a fresh view of its group.
pub fn standing(operation: &Operation, group: &Group, now: Timestamp) -> Standing {
    if operation.kind != OperationKind::Downscaling {
        return Standing::Holds;
    }
    let Some(set) = group.sets.iter().find(|set| set.uid == operation.set_uid) else {
        return Standing::Void;
    };
    let to = operation.to.unwrap_or_default();
    let pods = u32::try_from(set.pods.len()).unwrap_or(u32::MAX);
    let is_changed = set.generation > operation.generation.unwrap_or_default();
    if set.desired() == to && is_changed {
        return if set.is_observed() && pods <= to {
            Standing::Done
        } else {
            Standing::Holds
        };
    }
    let is_over = if is_changed {
        set.is_observed() && pods >= set.expected_pods()
    } else {
        operation.expires.as_ref().is_some_and(|expires| now >= expires.0)
    };
    if is_over {
        Standing::Abandoned
    } else {
        Standing::Holds
    }
}

/// What a review, or the controller, finds where it is about to take the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The operation with the holder in it.
    By(Operation),
    /// Another one is under way.
    Busy(Operation),
}

/// The operation for a downscale, held by `holder`: a new one, or the one under way if it is the same downscale.
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

/// By what a try of the controller holds an operation.
pub fn holder(now: Timestamp) -> String {
    format!("{CONTROLLER}/{now}")
}

/// Whether an operation is held by the controller thus.
pub fn is_of_controller(uid: &str) -> bool {
    uid.strip_prefix(CONTROLLER)
        .is_some_and(|instant| instant.starts_with('/'))
}

/// Whether an operation is this downscale.
pub fn is(operation: &Operation, downscale: &Downscale) -> bool {
    operation.kind == OperationKind::Downscaling
        && operation.set_uid == downscale.set_uid
        && (operation.from, operation.to) == (Some(downscale.from), Some(downscale.to))
}

/// Whether `holder` holds it.
pub fn is_held(operation: Option<&Operation>, downscale: &Downscale, holder: &str) -> bool {
    operation.is_some_and(|operation| {
        is(operation, downscale) && operation.admission_uids.iter().any(|uid| uid == holder)
    })
}

/// Ends the operation on record if it is done, or no longer matters. The time of the last downscale counts from the instant.
pub fn settle(group: &mut Group, now: Timestamp) {
    let Some(operation) = &group.status.operation else {
        return;
    };
    match standing(operation, group, now) {
        Standing::Holds | Standing::Abandoned => return,
        Standing::Void => {}
        Standing::Done => {
            let set = group.sets.iter().find(|set| set.uid == operation.set_uid);
            if let Some(set) = set.filter(|set| Preparation::is_asked_for(set)) {
                let set = set.name.clone();
                group.status.last_downscale.insert(set, Time(seconds(now)));
            }
        }
    }
    group.status.operation = None;
}

/// Brings the operation on record up to date: ends it, or leaves it when it is abandoned. Answers with the pods that have to be un-prepared
/// before it is released.
pub fn advance(group: &mut Group, facts: &Facts, settings: &Settings, now: Timestamp) -> Vec<Ask> {
    let Some(operation) = &group.status.operation else {
        return Vec::new();
    };
    let mut standing = standing(operation, group, now);
    let refused = facts.refused.as_ref().and_then(|refused| refused.holder.as_ref());
    if let (Standing::Holds, Some(refused)) = (standing, refused)
        && operation.admission_uids.contains(refused)
        && is_as_it_was(operation, group)
    {
        if operation.admission_uids.len() > 1 {
            if let Some(operation) = &mut group.status.operation {
                operation.admission_uids.retain(|uid| uid != refused);
            }
            return Vec::new();
        }
        standing = Standing::Abandoned;
    }
    match standing {
        Standing::Holds => return Vec::new(),
        Standing::Void | Standing::Done => {
            settle(group, now);
            return Vec::new();
        }
        Standing::Abandoned => {
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
            // Until then a review of before may still ask pods to prepare.
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

/// Whether the set of a downscale is as it was before it.
fn is_as_it_was(operation: &Operation, group: &Group) -> bool {
    let set = group.sets.iter().find(|set| set.uid == operation.set_uid);
    set.is_some_and(|set| set.generation <= operation.generation.unwrap_or_default())
}

/// The requests that un-prepare the pods of an operation that stay.
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
        .unwrap_or_default() // none was asked at such an address
}
