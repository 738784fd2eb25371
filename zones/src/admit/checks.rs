//! The checks that deny a downscale, and their messages.

use jiff::Timestamp;
use muster_api::zonerollout::{Operation, OperationKind};

use crate::{
    duration,
    model::{Disturbance, Group},
    scale::times::{Source, Times, TooRecent, too_recent},
};

/// The zone tracker's ConfigMap, or the ZoneRollout, cannot be read or created.
pub const NOT_LOADED: &str = "loading zones failed.";
/// Pods cannot be listed.
pub const PODS_NOT_READ: &str =
    "an error occurred while checking whether StatefulSets have non-updated replicas";
/// A pod that leaves could not be prepared.
pub const NOT_PREPARED: &str = "one or more pods failed to prepare for shutdown.";
/// The operation could not be recorded.
pub const NOT_RECORDED: &str = "recording the operation in the ZoneRollout failed.";
/// The operation was replaced in the meantime.
pub const OVERTAKEN: &str = "the operation in the ZoneRollout was modified concurrently.";

/// The time of the downscale could not be recorded. Two texts, as in rollout-operator, for scripts that match them.
pub fn not_timed(use_zone_tracker: bool) -> &'static str {
    if use_zone_tracker {
        "setting downscale timestamp in the zone ConfigMap failed."
    } else {
        "adding an annotation to the statefulset failed."
    }
}

/// Another operation is in progress.
pub fn busy(operation: &Operation) -> String {
    match operation.kind {
        OperationKind::Downscaling => {
            format!(
                "statefulset {} is already in process of updating replicas",
                operation.set
            )
        }
        OperationKind::Rolling => format!("pods of statefulset {} are being replaced", operation.set),
    }
}

/// The reason if the downscale times of other sets forbid the downscale.
pub fn times(group: &Group, except: &str, times: Times<'_>, now: Timestamp) -> Option<String> {
    match too_recent(&group.sets, except, times, now) {
        Ok(None) => None,
        Ok(Some(TooRecent { set, at, wait })) => Some(format!(
            "statefulset {set} was downscaled at {} and is labelled to wait {} between zone downscales",
            at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC"),
            duration::go_text(wait)
        )),
        Err(unreadable) => Some(match unreadable.source {
            Source::Set => "parsing downscale annotations failed.".to_owned(),
            // The repeated word is in rollout-operator's message, too.
            Source::Tracker => {
                "parsing parsing downscale timestamps from the zone ConfigMap failed.".to_owned()
            }
        }),
    }
}

/// A set whose pods are not all available at its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// Name of the set.
    pub set: String,
    /// Pods that are not at the revision of its template.
    pub non_updated: i64,
    /// Pods that are not available; negative if more pods are available than its status reports.
    pub non_ready: i64,
    /// The reason if both numbers are 0.
    why: Option<&'static str>,
}

impl HeldUp {
    /// The human-readable message.
    pub fn message(&self) -> String {
        let Self {
            set,
            non_updated,
            non_ready,
            why,
        } = self;
        match why {
            Some(why) => format!("statefulset {set} {why}"),
            None => format!(
                "statefulset {set} has {non_updated} non-updated replicas and {non_ready} non-ready replicas"
            ),
        }
    }
}

/// The first other set that blocks the downscale. If its status shows the problem, the numbers are from its status;
/// otherwise they are based on the expected pods (R11).
pub fn held_up(group: &Group, except: &str) -> Option<HeldUp> {
    group
        .sets
        .iter()
        .filter(|set| set.name != except)
        .find_map(|set| {
            let is_ready = |pod: &&crate::model::Pod| pod.is_available() && !group.is_in_flight(pod);
            let ready = i64::try_from(set.pods.iter().filter(is_ready).count()).unwrap_or(i64::MAX);
            let (replicas, updated) = (
                i64::from(set.status.replicas),
                i64::from(set.status.updated_replicas),
            );
            let disturbance = group.disturbance(set);
            let by_status = replicas != ready || updated != ready;
            let expected = if by_status {
                replicas
            } else {
                i64::from(set.expected_pods())
            };
            let why = match &disturbance {
                _ if by_status => None,
                None => return None,
                Some(Disturbance::Pods(_) | Disturbance::Reported { .. }) => None,
                Some(Disturbance::NotObserved) => Some("was not observed by its controller yet"),
                Some(Disturbance::ScalingDown { .. }) => Some("is already in process of updating replicas"),
            };
            Some(HeldUp {
                set: set.name.clone(),
                non_updated: expected - updated,
                non_ready: expected - ready,
                why,
            })
        })
}
