//! Rolling: decides which pods of which set to delete now, so that the StatefulSet controller re-creates them at the
//! new revision.
//!
//! Invariant: at most one set is rolled at a time; if another set is disturbed, no available pod is deleted.

mod batch;
mod reasons;

use muster_api::zonerollout::{OperationKind, ZoneReason};

pub use self::{batch::Budget, reasons::code};

use self::reasons::Reasons;
use crate::model::{Disturbance, Group, Pod, Set};

/// The result of the roll decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// Pods to delete, all of one set.
    pub delete: Vec<Delete>,
    /// Sets whose pods are all at the new revision and available, but whose `status.currentRevision` is outdated.
    pub record: Vec<Record>,
    /// Name of the set that is being rolled.
    pub active: Option<String>,
    /// Reasons for the states of sets, and of pods that are waited for.
    pub reasons: Vec<ZoneReason>,
    /// Why the pass failed: manual intervention is required.
    pub error: Option<String>,
}

/// A pod to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Name of the pod's set.
    pub set: String,
    /// Name of the pod.
    pub pod: String,
    /// The uid of the pod, as a precondition.
    pub uid: String,
    /// The resourceVersion of the pod, as an additional precondition if the pod must be unchanged.
    pub resource_version: Option<String>,
}

/// A set whose `status.currentRevision` must be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the set.
    pub set: String,
    /// The uid of the set.
    pub uid: String,
    /// The revision to write.
    pub revision: String,
}

/// What blocks rolling, apart from pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held<'a> {
    /// The set whose revision is condemned.
    pub condemned: Option<&'a str>,
    /// The set that is soaking: it is done, and the next one must not start yet.
    pub soaking: Option<&'a str>,
}

/// Decides what to roll now.
pub fn roll(group: &Group, held: Held<'_>, budget: &mut dyn Budget) -> Roll {
    let mut reasons = Reasons::default();
    let mut roll = Roll::default();
    if let Some(set) = group.sets.iter().find(|set| set.strategy != "OnDelete") {
        let message = format!(
            "StatefulSet {} has {} update strategy while OnDelete is expected, skipping reconcile",
            set.name, set.strategy
        );
        reasons.of_set(set, code::NOT_ON_DELETE, &message);
        roll.error = Some(message);
    } else if let Some(condemned) = held.condemned {
        reasons.condemned(group, condemned);
    } else if let Some(delete) = stuck(group, &mut reasons) {
        roll.active = delete.first().map(|delete| delete.set.clone());
        roll.delete = delete;
    } else {
        roll_in_order(group, held, budget, &mut roll, &mut reasons);
    }
    roll.reasons = reasons.into_list();
    roll
}

/// Pods at an old revision that do not become ready without intervention, of the first set that has any: deleting them
/// makes nothing unavailable, and otherwise a fix would never be rolled out. A pod that becomes ready in the meantime
/// is kept: the deletion is bound to the resourceVersion that was read.
fn stuck(group: &Group, reasons: &mut Reasons) -> Option<Vec<Delete>> {
    let may_go = |pod: &&Pod| pod.stuck().is_some() && !pod.terminating && !group.is_in_flight(pod);
    group.sets.iter().find_map(|set| {
        if group.is_paused(set) || !set.is_observed() || set.status.update_revision.is_empty() {
            return None;
        }
        let stuck: Vec<&Pod> = set.outdated().filter(may_go).collect();
        for pod in &stuck {
            let why = pod.stuck().unwrap_or_default();
            reasons.of_pod(
                set,
                pod,
                code::STUCK,
                &format!("it is at an old revision and does not become ready: {why}"),
            );
        }
        let delete = |pod: &Pod| Delete {
            resource_version: pod.stuck_version.clone(),
            ..Delete::of(set, pod)
        };
        (!stuck.is_empty()).then(|| stuck.into_iter().map(delete).collect())
    })
}

fn roll_in_order(
    group: &Group,
    held: Held<'_>,
    budget: &mut dyn Budget,
    roll: &mut Roll,
    reasons: &mut Reasons,
) {
    let disturbed: Vec<(&Set, Disturbance)> = group
        .sets
        .iter()
        .filter_map(|set| Some((set, group.disturbance(set)?)))
        .collect();
    for (set, disturbance) in &disturbed {
        reasons.disturbed(set, disturbance);
    }
    // If two zones are disturbed, no available pod is deleted. If one is, it goes first, and no other set is started.
    let sets: Vec<&Set> = match disturbed.as_slice() {
        [] => group.sets.iter().collect(),
        [(set, _)] => vec![set],
        [(first, _), (second, _), ..] => {
            reasons.two_zones(group, first, second);
            return;
        }
    };
    for set in sets {
        if group.is_paused(set) {
            reasons.paused(set);
            continue;
        }
        let disturbance = disturbed.iter().find(|(other, _)| other.name == set.name);
        match one_set(
            group,
            set,
            disturbance.map(|(_, disturbance)| disturbance),
            held,
            budget,
            reasons,
        ) {
            Ok(Next::Done(record)) => roll.record.extend(record),
            Ok(Next::Active(delete)) => {
                roll.active = Some(set.name.clone());
                roll.delete = delete;
                break;
            }
            Ok(Next::Waits) => break,
            Err(error) => {
                reasons.of_set(set, code::FAILED, &error);
                roll.error = Some(format!("failed to update StatefulSet {}: {error}", set.name));
                break;
            }
        }
    }
    reasons.waits_for(group, roll.active.as_deref());
}

/// The state of one set.
enum Next {
    /// All pods are at the revision and available.
    Done(Option<Record>),
    /// The set is being rolled; these pods are deleted now.
    Active(Vec<Delete>),
    /// Nothing can be done with the set now.
    Waits,
}

fn one_set(
    group: &Group,
    set: &Set,
    disturbance: Option<&Disturbance>,
    held: Held<'_>,
    budget: &mut dyn Budget,
    reasons: &mut Reasons,
) -> Result<Next, String> {
    for (revision, field) in [
        (&set.status.current_revision, "currentRevision"),
        (&set.status.update_revision, "updateRevision"),
    ] {
        if revision.is_empty() {
            return Err(format!("failed to get pods to update: {field} is empty"));
        }
    }
    if matches!(
        disturbance,
        Some(Disturbance::NotObserved | Disturbance::ScalingDown { .. })
    ) {
        return Ok(Next::Waits);
    }
    if set.outdated().next().is_none() {
        if disturbance.is_some() {
            return Ok(Next::Active(Vec::new()));
        }
        reasons.done(set);
        let is_new = set.status.current_revision != set.status.update_revision;
        return Ok(Next::Done(is_new.then(|| Record::of(set))));
    }
    if let Some(downscale) = other_operation(group) {
        reasons.of_set(
            set,
            code::SCALING_DOWN,
            &format!("a downscale of {downscale} is under way"),
        );
        return Ok(Next::Waits);
    }
    // A soak does not stop a zone that is already disturbed: that is not a new start.
    if let (Some(soaking), None) = (held.soaking, disturbance)
        && !was_begun(group, set)
    {
        reasons.of_set(set, code::SOAKING, &format!("{soaking} is done and soaking"));
        return Ok(Next::Waits);
    }
    let unavailable = disturbance.map_or(0, Disturbance::unavailable);
    let delete = batch::batch(group, set, unavailable, budget, reasons)?;
    Ok(Next::Active(delete))
}

/// Whether the set is already being rolled, and was started before the soak.
fn was_begun(group: &Group, set: &Set) -> bool {
    let rolling = group.status.operation.as_ref();
    rolling.is_some_and(|operation| operation.kind == OperationKind::Rolling && operation.set_uid == set.uid)
}

/// Name of the set with a downscale in progress.
fn other_operation(group: &Group) -> Option<&str> {
    let operation = group.status.operation.as_ref()?;
    (operation.kind == OperationKind::Downscaling).then_some(operation.set.as_str())
}

impl Delete {
    pub(crate) fn of(set: &Set, pod: &Pod) -> Self {
        Self {
            set: set.name.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            resource_version: None,
        }
    }
}

impl Record {
    fn of(set: &Set) -> Self {
        Self {
            set: set.name.clone(),
            uid: set.uid.clone(),
            revision: set.status.update_revision.clone(),
        }
    }
}
