//! What is to be done with a group now: the one entrance.
//!
//! Where something is still to be read or asked, the executor does that, and decides again with what came of it. Else it writes `status` by
//! compare-and-swap, and only then carries out `actions`, in order; each after a fresh read of the group.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    conditions::bounded,
    evidence::Progress,
    names::zones_revision,
    schema::MAX_MESSAGE,
    zonerollout::{
        InFlight, MAX_IN_FLIGHT, MAX_REASONS, NewerRevision, Operation, OperationKind, PROGRESS_DEADLINE,
        Why, ZoneReason, ZoneRolloutStatus, ZoneSet,
    },
};

use crate::{
    budget::{self, MEMORY},
    invalid,
    model::{Group, Pod, Set},
    roll::{self, Budget, Held, Roll},
    scale::{self, Change, Facts, Refused, Settings, mirror::Reference, operation, pods::Ask},
};

/// How long the revisions of a group have to stay the same.
const QUIET: SignedDuration = SignedDuration::from_secs(5);

/// A write in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write replicas. Where that is refused, the pass is decided again with [`Facts::refused`]: the rollout goes on.
    Scale(Change),
    /// Delete a pod, if its uid is this one.
    Delete(roll::Delete),
    /// Write `status.currentRevision` of a set.
    Record(roll::Record),
}

impl Action {
    /// What the pass of the group says where the action was refused with these words: it ends with it.
    pub fn refused(&self, error: &str) -> String {
        match self {
            Self::Scale(change) => format!("failed to write replicas of {}: {error}", change.target()),
            Self::Delete(delete) => format!(
                "failed to update StatefulSet {}: failed to delete pod {}: {error}",
                delete.set, delete.pod
            ),
            Self::Record(record) => format!(
                "failed to update StatefulSet {}: failed to update StatefulSet : {error}",
                record.set
            ),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// References whose subresource `scale` is to be read before anything is decided.
    pub read: Vec<Reference>,
    /// Pods that are to be asked before anything is decided; answers to DELETE do not matter, but have to be there.
    pub ask: Vec<Ask>,
    /// What is to be on record before anything is done. Conditions are the executor's.
    pub status: ZoneRolloutStatus,
    /// What is to be done then, in order.
    pub actions: Vec<Action>,
    /// The set and revision that were condemned, if one was.
    pub stalled: Option<String>,
    /// Why the pass failed, in the original's words.
    pub error: Option<String>,
    /// When something changes that no event tells of.
    pub wake_at: Option<Timestamp>,
}

impl Decision {
    /// A change of replicas of it was refused with these words: nothing of its downscale is sent any more.
    pub fn refused(&self, message: String) -> Refused {
        let operation = self.status.operation.as_ref();
        let takes = |operation: &&Operation| {
            self.actions.iter().any(|action| match action {
                Action::Scale(Change::Replicas(change)) => operation::is(operation, change),
                Action::Scale(Change::WriteBack { .. }) | Action::Delete(_) | Action::Record(_) => false,
            })
        };
        let holder = operation
            .filter(takes)
            .and_then(|operation| operation.admission_uids.last());
        Refused {
            message,
            holder: holder.cloned(),
        }
    }
}

/// Decides. Where replicas are changed nothing is rolled in the same pass.
pub fn decide(
    group: &Group,
    facts: &Facts,
    settings: &Settings,
    budget: &mut dyn Budget,
    now: Timestamp,
) -> Decision {
    let before = group;
    let mut group = group.clone();
    group
        .status
        .in_flight
        .retain(|entry| is_under_way(&group.sets, entry, now));
    note_sets(&mut group, now);
    note_revision(&mut group, now);
    retry(&mut group);
    end_rolling(&mut group);
    let undo = operation::advance(&mut group, facts, settings, now);
    let scaling = scale::scale(&group, facts, settings, now);
    if scaling.is_open() || !undo.is_empty() {
        return Decision {
            read: scaling.read,
            ask: undo.into_iter().chain(scaling.ask).collect(),
            status: before.status.clone(),
            ..Decision::default()
        };
    }
    let is_scaling = scaling.is_scaling();
    group.status.operation = scaling.operation.or(group.status.operation);
    let soaking = soaking(&group, now);
    let held = Held {
        condemned: condemned(&group),
        soaking: soaking.as_ref().map(|(set, _)| set.as_str()),
    };
    let mut roll = if is_scaling {
        Roll::default()
    } else {
        roll::roll(&group, held, budget)
    };
    // What does not fit on record is not deleted.
    roll.delete
        .truncate(MAX_IN_FLIGHT.saturating_sub(group.status.in_flight.len()));
    let mut decision = Decision {
        error: roll.error.clone(),
        ..Decision::default()
    };
    let again = unfinished(&group);
    begin(&mut group, &roll, now);
    note_progress(&mut group, &roll, soaking.as_ref(), now);
    condemn(&mut group, &roll, now);
    group.status.reasons = scaling
        .reasons
        .into_iter()
        .chain(roll.reasons)
        .chain(invalid_values(&group.sets))
        .take(MAX_REASONS)
        .collect();
    decision.stalled = condemned(&group).map(str::to_owned);
    let roll_at = wake_at(&group, soaking.map(|(_, until)| until), now);
    decision.wake_at = roll_at.into_iter().chain(scaling.wake_at).min();
    // What is done is recorded before anything new is begun.
    let record = roll.record.into_iter().map(Action::Record);
    let delete = again.into_iter().chain(roll.delete).map(Action::Delete);
    let scale = scaling.changes.into_iter().map(Action::Scale);
    decision.actions = scale.chain(record).chain(delete).collect();
    decision.status = group.status;
    decision
}

/// Labels and annotations that cannot be meant. They come last: what holds a group up is said first.
fn invalid_values(sets: &[Set]) -> impl Iterator<Item = ZoneReason> {
    let of_set = |set: &Set| {
        let reason = |message: String| ZoneReason {
            set: set.name.clone(),
            pod: None,
            reason: invalid::CODE.to_owned(),
            message: bounded(&message, MAX_MESSAGE).into_owned(),
        };
        invalid::invalid(set).into_iter().map(reason).collect::<Vec<_>>()
    };
    sets.iter().flat_map(of_set)
}

/// Whether a pod on record may still go.
fn is_under_way(sets: &[Set], entry: &InFlight, now: Timestamp) -> bool {
    let mut pods = sets.iter().flat_map(|set| &set.pods);
    budget::is_under_way(entry, pods.find(|pod| pod.uid == entry.uid), now)
}

/// The sets as they are now. One at another revision than on record is another one: it has the whole deadline.
fn note_sets(group: &mut Group, now: Timestamp) {
    let noted = group.sets.iter().filter(|set| set.is_observed()).map(|set| {
        let before = group.status.sets.get(&set.name);
        let same = before.filter(|before| {
            (&before.uid, &before.update_revision) == (&set.uid, &set.status.update_revision)
        });
        let is_done = set.outdated().next().is_none() && group.disturbance(set).is_none();
        let done = is_done || same.is_some_and(|same| same.done);
        let note = ZoneSet {
            uid: set.uid.clone(),
            update_revision: set.status.update_revision.clone(),
            done,
            done_since: done.then(|| same.and_then(|same| same.done_since.clone()).unwrap_or(Time(now))),
            condemned: same.is_some_and(|same| same.condemned) && !is_done,
        };
        (set.name.clone(), note)
    });
    let mut noted: BTreeMap<String, ZoneSet> = noted.collect();
    // One that is not observed stays what it was.
    for set in group.sets.iter().filter(|set| !set.is_observed()) {
        if let Some(before) = group.status.sets.get(&set.name) {
            noted.insert(set.name.clone(), before.clone());
        }
    }
    let is_known = |(name, set): (&String, &ZoneSet)| {
        let before = group.status.sets.get(name);
        before
            .is_some_and(|before| (&before.uid, &before.update_revision) == (&set.uid, &set.update_revision))
    };
    if !noted.iter().all(is_known) {
        group.status.progressed = None;
    }
    group.status.sets = noted;
}

/// The revision of the group, once it has been quiet: templates of several sets change one after the other. Nothing waits for it.
fn note_revision(group: &mut Group, now: Timestamp) {
    let status = &mut group.status;
    let sets = status.sets.iter();
    let revision = zones_revision(sets.map(|(name, set)| (name.as_str(), set.update_revision.as_str())));
    if status.revision.as_ref() == Some(&revision) {
        status.newer = None;
        return;
    }
    match &status.newer {
        Some(newer) if newer.revision == revision => {
            if now.duration_since(newer.since.0) >= QUIET {
                status.revision = Some(revision);
                status.newer = None;
            }
        }
        _ => {
            let since = Time(now);
            status.newer = Some(NewerRevision { revision, since });
        }
    }
}

/// A revision that people ask for once more is not condemned any longer, and has the whole deadline.
fn retry(group: &mut Group) {
    let status = &mut group.status;
    let Some((asked, revision)) = group.spec.retry.as_ref().zip(status.revision.as_deref()) else {
        return;
    };
    let is_of = |asked: &str| {
        asked == revision
            || asked
                .strip_prefix(revision)
                .is_some_and(|more| more.starts_with('.'))
    };
    if !is_of(asked) || status.newer.is_some() || status.retried.as_ref() == Some(asked) {
        return;
    }
    status.retried = Some(asked.clone());
    for set in status.sets.values_mut() {
        set.condemned = false;
    }
    status.progressed = None;
}

/// A roll ends with its set: nothing of it is under way, and nothing of it is outdated.
fn end_rolling(group: &mut Group) {
    let Some(operation) = group.status.operation.as_ref() else {
        return;
    };
    if operation.kind != OperationKind::Rolling {
        return;
    }
    let set = group.sets.iter().find(|set| set.uid == operation.set_uid);
    let goes_on = set.is_some_and(|set| group.disturbance(set).is_some() || set.outdated().next().is_some());
    if !goes_on {
        group.status.operation = None;
    }
}

/// The set that was condemned at the revision that it has.
fn condemned(group: &Group) -> Option<&str> {
    let mut sets = group.status.sets.iter();
    sets.find(|(_, set)| set.condemned).map(|(name, _)| name.as_str())
}

/// The set that was done last and soaks, and until when.
fn soaking(group: &Group, now: Timestamp) -> Option<(String, Timestamp)> {
    let soak = group.spec.soak?;
    let soak = SignedDuration::from_millis(i64::try_from(soak.as_millis()).unwrap_or(i64::MAX));
    let until = |set: &ZoneSet| set.done_since.as_ref()?.0.checked_add(soak).ok(); // an end beyond time is none
    let sets = group.status.sets.iter().filter(|(_, set)| set.done);
    let untils = sets.filter_map(|(name, set)| Some((name.clone(), until(set)?)));
    untils
        .filter(|(_, until)| now < *until)
        .max_by_key(|(_, until)| *until)
}

/// Deletions that are on record and whose pods stay: what wrote them did not send them, or it did not arrive. One that would take an available
/// pod waits, on record, while its set is paused or a pod of another zone is unavailable.
fn unfinished(group: &Group) -> Vec<roll::Delete> {
    let may_go = |set: &Set, pod: &Pod| {
        let mut others = group.sets.iter().filter(|other| other.name != set.name);
        !group.is_paused(set)
            && (!pod.is_available() || others.all(|other| group.disturbance(other).is_none()))
    };
    let again = |entry: &InFlight| {
        let set = group.set(&entry.set)?;
        let pod = set.pods.iter().find(|pod| pod.uid == entry.uid)?;
        (!pod.terminating && may_go(set, pod)).then(|| roll::Delete {
            resource_version: entry.resource_version.clone(),
            ..roll::Delete::of(set, pod)
        })
    };
    let entries = group.status.in_flight.iter();
    let deletions = entries.filter(|entry| entry.why == Why::Deletion);
    deletions.filter_map(again).collect()
}

/// What is about to be deleted goes on record, and the roll that it belongs to.
fn begin(group: &mut Group, roll: &Roll, now: Timestamp) {
    for delete in &roll.delete {
        group.status.in_flight.push(InFlight {
            pod: delete.pod.clone(),
            uid: delete.uid.clone(),
            set: delete.set.clone(),
            resource_version: delete.resource_version.clone(),
            why: Why::Deletion,
            since: Time(now),
        });
    }
    let set = roll.active.as_deref().and_then(|active| group.set(active));
    let begins = !roll.delete.is_empty() && group.status.operation.is_none();
    if let (true, Some(set)) = (begins, set) {
        group.status.operation = Some(Operation {
            kind: OperationKind::Rolling,
            set: set.name.clone(),
            set_uid: set.uid.clone(),
            from: None,
            to: None,
            generation: None,
            admission_uids: Vec::new(),
            expires: None,
        });
    }
}

/// How far the group is, and since when nothing got better.
fn note_progress(group: &mut Group, roll: &Roll, soaking: Option<&(String, Timestamp)>, now: Timestamp) {
    let is_done = |set: &Set, pod: &&Pod| {
        pod.revision() == Some(set.status.update_revision.as_str()) && pod.is_available()
    };
    let done: usize = group
        .sets
        .iter()
        .map(|set| set.pods.iter().filter(|pod| is_done(set, pod)).count())
        .sum();
    let total: u32 = group.sets.iter().map(Set::expected_pods).sum();
    let done = u32::try_from(done).unwrap_or(u32::MAX).min(total);
    let is_open = group.sets.iter().any(|set| !is_noted_done(group, set));
    let waiting = is_open.then(|| waiting(group, roll, soaking)).flatten();
    let before = group.status.progress.as_ref();
    let is_better = before.is_none_or(|before| done > before.done) || !roll.delete.is_empty();
    let status = &mut group.status;
    status.progressed = match (status.progressed.take(), is_open) {
        (_, false) => None,
        (Some(since), true) if !is_better => Some(since),
        (_, true) => Some(Time(now)),
    };
    match (waiting.is_some(), status.waiting_since.take()) {
        (true, since) => status.waiting_since = Some(since.unwrap_or(Time(now))),
        // What it waited does not count.
        (false, Some(since)) => {
            let waited = now.duration_since(since.0);
            let moved = status
                .progressed
                .take()
                .map(|at| Time(at.0.checked_add(waited).unwrap_or(now).min(now)));
            status.progressed = moved;
        }
        (false, None) => {}
    }
    status.progress = Some(Progress { done, total, waiting });
}

fn is_noted_done(group: &Group, set: &Set) -> bool {
    group.status.sets.get(&set.name).is_some_and(|noted| noted.done)
}

/// What it waits for that is no work of its own.
fn waiting(group: &Group, roll: &Roll, soaking: Option<&(String, Timestamp)>) -> Option<String> {
    let open = group.sets.iter().filter(|set| !is_noted_done(group, set));
    if open.clone().all(|set| group.is_paused(set)) {
        return Some("paused".to_owned());
    }
    let soaks = roll.active.is_none() && open.clone().all(|set| group.disturbance(set).is_none());
    soaking.filter(|_| soaks).map(|(set, _)| format!("soak of {set}"))
}

/// Condemns the revision that was rolled while nothing got better.
fn condemn(group: &mut Group, roll: &Roll, now: Timestamp) {
    let status = &group.status;
    let (Some(since), None) = (&status.progressed, &status.waiting_since) else {
        return;
    };
    let deadline = deadline(group);
    if now.duration_since(since.0) < deadline || condemned(group).is_some() {
        return;
    }
    let open = |name: &String| group.status.sets.get(name).is_some_and(|set| !set.done);
    let rolled = group
        .status
        .operation
        .as_ref()
        .map(|operation| operation.set.clone());
    let candidates = roll.active.clone().into_iter().chain(rolled);
    let set = candidates.into_iter().find(open).or_else(|| {
        let disturbed = group.sets.iter().filter(|set| group.disturbance(set).is_some());
        disturbed.map(|set| set.name.clone()).find(open)
    });
    if let Some(set) = set.and_then(|set| group.status.sets.get_mut(&set)) {
        set.condemned = true;
    }
}

fn deadline(group: &Group) -> SignedDuration {
    let deadline = group.spec.progress_deadline.unwrap_or(PROGRESS_DEADLINE);
    SignedDuration::from_millis(i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX))
}

fn wake_at(group: &Group, soaked: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let status = &group.status;
    let deadline = status
        .progressed
        .as_ref()
        .filter(|_| status.waiting_since.is_none() && condemned(group).is_none())
        .and_then(|since| since.0.checked_add(deadline(group)).ok()); // an end beyond time never comes
    let evictions = status.in_flight.iter().filter(|entry| entry.why == Why::Eviction);
    let evictions = evictions.filter_map(|entry| entry.since.0.checked_add(MEMORY).ok()); // the same
    let quiet = status.newer.as_ref();
    let quiet = quiet.and_then(|newer| newer.since.0.checked_add(QUIET).ok()); // the same
    // One that has expired is undone in the next pass, and the one after that.
    let expires = status
        .operation
        .as_ref()
        .and_then(|operation| operation.expires.as_ref());
    let next = now.checked_add(SignedDuration::from_secs(1)).unwrap_or(now);
    evictions
        .chain(expires.map(|expires| expires.0.max(next)))
        .chain(soaked)
        .chain(quiet)
        .chain(deadline)
        .filter(|at| *at > now)
        .min()
}
