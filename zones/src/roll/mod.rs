//! Rolling: which pods of which set are deleted now, so that the StatefulSet controller makes them again at the new revision.
//!
//! Invariant: at most one set is rolled at a time; the others are undisturbed, or nothing available is deleted.

mod batch;
mod reasons;

use muster_api::zonerollout::{OperationKind, ZoneReason};

pub use self::{batch::Budget, reasons::code};

use self::reasons::Reasons;
use crate::model::{Disturbance, Group, Pod, Set};

/// What rolling comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// Pods that are to be deleted, all of one set.
    pub delete: Vec<Delete>,
    /// Sets of which all pods are at the new revision and available, and whose `status.currentRevision` does not say so.
    pub record: Vec<Record>,
    /// The set that is being rolled.
    pub active: Option<String>,
    /// Why each set, and each pod that is waited for, is where it is.
    pub reasons: Vec<ZoneReason>,
    /// Why the pass failed: something must be changed by people.
    pub error: Option<String>,
}

/// A pod that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Its set.
    pub set: String,
    /// Its name.
    pub pod: String,
    /// Its uid: a precondition.
    pub uid: String,
    /// Its resourceVersion, where it goes only as it is: a precondition too.
    pub resource_version: Option<String>,
}

/// A set whose `status.currentRevision` is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The set.
    pub set: String,
    /// Its uid.
    pub uid: String,
    /// The revision.
    pub revision: String,
}

/// What holds rolling up, beyond the pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held<'a> {
    /// The set of a revision that was condemned.
    pub condemned: Option<&'a str>,
    /// The set that soaks: it is done, and the next one is not to be begun yet.
    pub soaking: Option<&'a str>,
}

/// What is to be rolled now.
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

/// Pods of an old revision that do not come up by themselves, of the first set that has some: to delete them makes nothing unavailable, and
/// without it a fix is never rolled out. One that comes up meanwhile stays: it is deleted at the version that was read.
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
                &format!("it is of an old revision and does not come up: {why}"),
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
    // Where two zones are disturbed nothing available goes. Where one is, it goes first, and no other set is begun.
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

/// What a set comes to.
enum Next {
    /// All of its pods are at the revision and available.
    Done(Option<Record>),
    /// It is being rolled; these go now.
    Active(Vec<Delete>),
    /// Nothing of it can be done now.
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
    // A zone that is disturbed already is not begun anew.
    if let (Some(soaking), None) = (held.soaking, disturbance)
        && !was_begun(group, set)
    {
        reasons.of_set(set, code::SOAKING, &format!("{soaking} is done, and soaks"));
        return Ok(Next::Waits);
    }
    let unavailable = disturbance.map_or(0, Disturbance::unavailable);
    let delete = batch::batch(group, set, unavailable, budget, reasons)?;
    Ok(Next::Active(delete))
}

/// Whether a set is being rolled already: it was begun before the soak.
fn was_begun(group: &Group, set: &Set) -> bool {
    let rolling = group.status.operation.as_ref();
    rolling.is_some_and(|operation| operation.kind == OperationKind::Rolling && operation.set_uid == set.uid)
}

/// The set of a downscale that is under way.
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
