//! Decides what to do with a group now: the entry point of this crate.
//!
//! If more input is needed, the executor reads it or sends the requests to pods, and calls `decide` again with the
//! results. Otherwise it writes `status` by compare-and-swap, and only then performs `actions`, in order; each after
//! reading the group again.

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

/// How long the revisions of a group must remain unchanged.
const QUIET: SignedDuration = SignedDuration::from_secs(5);

/// A write to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write replicas. If this is rejected, the pass is decided again with [`Facts::refused`]: the rollout continues.
    Scale(Change),
    /// Delete a pod, with its uid as a precondition.
    Delete(roll::Delete),
    /// Write `status.currentRevision` of a set.
    Record(roll::Record),
}

impl Action {
    /// The error of the group's pass if the action was rejected with this message; the pass ends.
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

/// What to do in this pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// References whose subresource `scale` must be read before a decision.
    pub read: Vec<Reference>,
    /// Requests to pods that are required before a decision; the content of answers to DELETE is ignored, but the
    /// answers must be present.
    pub ask: Vec<Ask>,
    /// The status to record before any action. Conditions are set by the executor.
    pub status: ZoneRolloutStatus,
    /// The actions to perform afterwards, in order.
    pub actions: Vec<Action>,
    /// Name of the set whose revision is condemned, if any.
    pub stalled: Option<String>,
    /// Why the pass failed, with rollout-operator's text.
    pub error: Option<String>,
    /// When to run the next pass even if no event occurs.
    pub wake_at: Option<Timestamp>,
}

impl Decision {
    /// Builds the fact that a change of replicas was rejected with this message: no further request of that downscale
    /// is sent.
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

/// The decision for a group. A pass that changes replicas does not roll pods.
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
    // Pods that exceed the capacity of the record are not deleted.
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
    // Completed sets are recorded before new deletions start.
    let record = roll.record.into_iter().map(Action::Record);
    let delete = again.into_iter().chain(roll.delete).map(Action::Delete);
    let scale = scaling.changes.into_iter().map(Action::Scale);
    decision.actions = scale.chain(record).chain(delete).collect();
    decision.status = group.status;
    decision
}

/// Invalid labels and annotations. They are last in the list: what blocks the group is reported first.
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

/// Whether a recorded pod may still be removed.
fn is_under_way(sets: &[Set], entry: &InFlight, now: Timestamp) -> bool {
    let mut pods = sets.iter().flat_map(|set| &set.pods);
    budget::is_under_way(entry, pods.find(|pod| pod.uid == entry.uid), now)
}

/// Updates the record of the sets. A set whose revision differs from the record starts over, with the full deadline.
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
    // A set that is not observed keeps its record.
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

/// Updates the revision of the group once it has been stable: the templates of several sets change one after the other.
/// No rollout waits for this.
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

/// Handles spec.retry: the revision is no longer condemned, and gets the full deadline again.
fn retry(group: &mut Group) {
    let status = &mut group.status;
    let Some((requested, revision)) = group.spec.retry.as_ref().zip(status.revision.as_deref()) else {
        return;
    };
    let is_of = |requested: &str| {
        requested == revision
            || requested
                .strip_prefix(revision)
                .is_some_and(|more| more.starts_with('.'))
    };
    if !is_of(requested) || status.newer.is_some() || status.retried.as_ref() == Some(requested) {
        return;
    }
    status.retried = Some(requested.clone());
    for set in status.sets.values_mut() {
        set.condemned = false;
    }
    status.progressed = None;
}

/// Ends a roll once its set is complete: no pod is in flight or disturbed, and none is outdated.
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

/// The set that is condemned at its current revision.
fn condemned(group: &Group) -> Option<&str> {
    let mut sets = group.status.sets.iter();
    sets.find(|(_, set)| set.condemned).map(|(name, _)| name.as_str())
}

/// The last completed set that is soaking, and when its soak ends.
fn soaking(group: &Group, now: Timestamp) -> Option<(String, Timestamp)> {
    let soak = group.spec.soak?;
    let soak = SignedDuration::from_millis(i64::try_from(soak.as_millis()).unwrap_or(i64::MAX));
    let until = |set: &ZoneSet| set.done_since.as_ref()?.0.checked_add(soak).ok(); // an end out of range counts as no soak
    let sets = group.status.sets.iter().filter(|(_, set)| set.done);
    let untils = sets.filter_map(|(name, set)| Some((name.clone(), until(set)?)));
    untils
        .filter(|(_, until)| now < *until)
        .max_by_key(|(_, until)| *until)
}

/// Recorded deletions whose pods still exist: they were not sent, or did not arrive. A deletion of an available pod
/// waits while its set is paused or a pod in another zone is unavailable.
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

/// Records the pods that are about to be deleted, and the roll that they belong to.
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

/// Updates the progress of the group, and since when there has been no progress.
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
        // The time spent waiting does not count.
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

/// What the group waits for that it cannot influence: a pause or a soak.
fn waiting(group: &Group, roll: &Roll, soaking: Option<&(String, Timestamp)>) -> Option<String> {
    let open = group.sets.iter().filter(|set| !is_noted_done(group, set));
    if open.clone().all(|set| group.is_paused(set)) {
        return Some("paused".to_owned());
    }
    let soaks = roll.active.is_none() && open.clone().all(|set| group.disturbance(set).is_none());
    soaking.filter(|_| soaks).map(|(set, _)| format!("soak of {set}"))
}

/// Condemns the revision that was being rolled out when the progress deadline passed.
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
        .and_then(|since| since.0.checked_add(deadline(group)).ok()); // an end out of range is never reached
    let evictions = status.in_flight.iter().filter(|entry| entry.why == Why::Eviction);
    let evictions = evictions.filter_map(|entry| entry.since.0.checked_add(MEMORY).ok()); // likewise
    let quiet = status.newer.as_ref();
    let quiet = quiet.and_then(|newer| newer.since.0.checked_add(QUIET).ok()); // likewise
    // An expired operation is undone in the next pass and the one after that.
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
