//! The report of a ZoneRollout about its group: conditions, as kstatus reads them, and events on changes. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::{
    conditions::{Conditions, Status},
    zonerollout::{InFlight, OperationKind, PROGRESS_DEADLINE, Why, ZoneReason, ZoneRolloutStatus},
};
use muster_zones::{decide::Decision, model::Group, roll};

use crate::runtime::Event;

/// Names in an event at most.
const NAMES: usize = 10;

/// Reasons of conditions. They are never renamed.
pub mod reason {
    /// All pods of all zones are available, and at the revisions of their sets.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// Pods are being replaced, or waited for.
    pub const PROGRESSING: &str = "Progressing";
    /// Replicas are being scaled down.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// A user paused it.
    pub const PAUSED: &str = "Paused";
    /// A zone is done, and the next one waits for the soak.
    pub const SOAKING: &str = "Soaking";
    /// Pods are not available, and there is nothing to roll.
    pub const UNAVAILABLE: &str = "Unavailable";
    pub use muster_api::zonerollout::PROGRESS_DEADLINE_EXCEEDED;

    /// A set does not use the update strategy OnDelete.
    pub const NOT_ON_DELETE: &str = "NotOnDelete";
    /// A set, or a budget, is invalid.
    pub const FAILED: &str = "Failed";
    /// The API server refused a write.
    pub const WRITE_FAILED: &str = "WriteFailed";
    /// The ZoneRollout of its group has another name.
    pub const WRONG_NAME: &str = "WrongName";
    /// No StatefulSet has the label.
    pub const NO_SETS: &str = "NoStatefulSets";
}

/// The result of a pass, in addition to its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass<'a> {
    /// The name of the ZoneRollout.
    pub name: &'a str,
    /// The generation of the ZoneRollout.
    pub generation: i64,
    /// The write that was refused in the last pass, as a message.
    pub refused: Option<&'a str>,
    /// The current time.
    pub now: Timestamp,
}

/// The status to write: that of the decision, with conditions.
pub(super) fn zone_status(group: &Group, decision: &Decision, pass: Pass<'_>) -> ZoneRolloutStatus {
    let conditions = conditions(group, decision, pass);
    let current = &group.status.conditions;
    ZoneRolloutStatus {
        observed_generation: Some(pass.generation),
        conditions: conditions.merge(current, pass.generation, pass.now),
        ..decision.status.clone()
    }
}

/// The conditions of a ZoneRollout without StatefulSets.
pub(super) fn without_sets(current: &[Condition], why: (&str, String), pass: Pass<'_>) -> Vec<Condition> {
    let conditions = Conditions::ready(Status::False, why.0, why.1.clone()).stalled(why.0, why.1);
    conditions.merge(current, pass.generation, pass.now)
}

fn conditions(group: &Group, decision: &Decision, pass: Pass<'_>) -> Conditions {
    let not_ready = |reason: &str, message: &str| Conditions::ready(Status::False, reason, message);
    if let Some(set) = &decision.stalled {
        let message = stalled(group, &decision.status, set, pass.name);
        let reason = reason::PROGRESS_DEADLINE_EXCEEDED;
        return not_ready(reason, &message).stalled(reason, message);
    }
    if let Some(error) = &decision.error {
        let is_not_on_delete = has(&decision.status.reasons, roll::code::NOT_ON_DELETE);
        return if is_not_on_delete {
            not_ready(reason::NOT_ON_DELETE, error).stalled(reason::NOT_ON_DELETE, error)
        } else {
            not_ready(reason::FAILED, error)
        };
    }
    if let Some(refused) = pass.refused {
        return not_ready(reason::WRITE_FAILED, refused).reconciling(reason::WRITE_FAILED, refused);
    }
    let (reason, message) = healthy_state(group, decision);
    match reason {
        reason::UP_TO_DATE => Conditions::ready(Status::True, reason, message),
        reason::PAUSED => not_ready(reason, &message),
        _ => not_ready(reason, &message).reconciling(reason, message),
    }
}

/// The state of a group without problems.
fn healthy_state(group: &Group, decision: &Decision) -> (&'static str, String) {
    let status = &decision.status;
    let progress = status.progress.as_ref();
    let (done, total) = progress.map_or((0, 0), |progress| (progress.done, progress.total));
    let counts = format!("{done} of {total} pods are available at the revision of their StatefulSet");
    let because = |code: &str| {
        let reason = status.reasons.iter().find(|reason| reason.reason != code);
        reason.map_or_else(
            || counts.clone(),
            |reason| format!("{counts}; {}", reason_message(reason)),
        )
    };
    if let Some(operation) = status.operation.as_ref()
        && operation.kind == OperationKind::Downscaling
    {
        let replicas = |count: Option<u32>| count.unwrap_or_default();
        let message = format!(
            "StatefulSet {} is scaled down from {} to {}",
            operation.set,
            replicas(operation.from),
            replicas(operation.to)
        );
        return (reason::SCALING_DOWN, message);
    }
    let is_outdated = group.sets.iter().any(|set| set.outdated().next().is_some());
    let is_disturbed = group.sets.iter().any(|set| group.disturbance(set).is_some());
    let is_done = status.sets.len() == group.sets.len() && status.sets.values().all(|set| set.done);
    match progress.and_then(|progress| progress.waiting.as_deref()) {
        Some("paused") => return (reason::PAUSED, format!("{counts}; it is paused")),
        Some(waiting) => return (reason::SOAKING, format!("{counts}; waiting for the {waiting}")),
        None => {}
    }
    if is_done && !is_outdated && !is_disturbed && done == total && status.in_flight.is_empty() {
        return (reason::UP_TO_DATE, counts);
    }
    if is_done && !is_outdated {
        return (reason::UNAVAILABLE, because(roll::code::UP_TO_DATE));
    }
    (reason::PROGRESSING, because(roll::code::UP_TO_DATE))
}

/// Why a group is stopped, and what users can do.
fn stalled(group: &Group, status: &ZoneRolloutStatus, set: &str, name: &str) -> String {
    let deadline = group.spec.progress_deadline.unwrap_or(PROGRESS_DEADLINE);
    let revision = status
        .sets
        .get(set)
        .map_or("", |set| set.update_revision.as_str());
    let of_pod = |reason: &&ZoneReason| {
        reason.set == set && reason.pod.is_some() && reason.reason != roll::code::UP_TO_DATE
    };
    let pod = status.reasons.iter().find(of_pod);
    let pod = pod.map_or_else(String::new, |reason| format!(" ({})", reason_message(reason)));
    format!(
        "StatefulSet {set} made no progress at revision {revision} for {deadline}{pod}; change its template, or retry: muster rollout retry zonerollout/{name}"
    )
}

fn reason_message(reason: &ZoneReason) -> String {
    let subject = match (&reason.pod, reason.set.as_str()) {
        (Some(pod), _) => format!("pod {pod}: "),
        (None, "") => String::new(),
        (None, set) => format!("StatefulSet {set}: "),
    };
    format!("{subject}{}", reason.message)
}

fn has(reasons: &[ZoneReason], code: &str) -> bool {
    reasons.iter().any(|reason| reason.reason == code)
}

/// The events of a change of status.
pub(super) fn events(before: &ZoneRolloutStatus, after: &ZoneRolloutStatus) -> Vec<Event> {
    let mut events = Vec::new();
    let is_new = before
        .operation
        .as_ref()
        .map(|operation| (operation.kind, &operation.set_uid));
    if let Some(operation) = after.operation.as_ref()
        && is_new != Some((operation.kind, &operation.set_uid))
    {
        let set = &operation.set;
        events.push(match operation.kind {
            OperationKind::Rolling => Event::normal(
                "ZoneStarted",
                "Roll",
                format!("pods of StatefulSet {set} are being replaced"),
            ),
            OperationKind::Downscaling => Event::normal(
                "DownscaleStarted",
                "Scale",
                format!(
                    "StatefulSet {set} is scaled down from {} to {}",
                    operation.from.unwrap_or_default(),
                    operation.to.unwrap_or_default()
                ),
            ),
        });
    }
    let is_known = |entry: &&InFlight| before.in_flight.iter().any(|known| known.uid == entry.uid);
    let deleted = after.in_flight.iter().filter(|entry| entry.why == Why::Deletion);
    let deleted: Vec<&str> = deleted
        .filter(|entry| !is_known(entry))
        .map(|entry| entry.pod.as_str())
        .collect();
    if !deleted.is_empty() {
        let more = deleted.len().saturating_sub(NAMES);
        let names: Vec<&str> = deleted.iter().take(NAMES).copied().collect();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let note = format!("deleting pods {}{more}", names.join(", "));
        events.push(Event::normal("PodsReplaced", "Delete", note));
    }
    for (name, set) in &after.sets {
        let known = before.sets.get(name);
        let same =
            known.filter(|known| (&known.uid, &known.update_revision) == (&set.uid, &set.update_revision));
        if set.done && !same.is_some_and(|same| same.done) && known.is_some() {
            let note = format!("StatefulSet {name} is done at revision {}", set.update_revision);
            events.push(Event::normal("ZoneDone", "Roll", note));
        }
        if set.condemned && !same.is_some_and(|same| same.condemned) {
            let condition = after
                .conditions
                .iter()
                .find(|condition| condition.type_ == "Stalled");
            let note = condition.map_or_else(String::new, |condition| condition.message.clone());
            events.push(Event::warning(reason::PROGRESS_DEADLINE_EXCEEDED, "Roll", note));
        }
    }
    events
}
