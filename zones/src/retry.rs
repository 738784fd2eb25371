//! The revision of a group, and a condemned one that is tried again.
//!
//! Templates of a group change one after the other, so its revision is the one that stays for a while. Nothing waits for it: it only names what a
//! person wants tried again.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{digest::sha256_hex, zonerollout::NextRevision};

use crate::model::Group;

/// How long no template of a group must have changed before they are its revision.
const QUIET: SignedDuration = SignedDuration::from_secs(5);
/// Between a revision in `spec.retry` and what tells one retry of it from the next.
const AGAIN: char = '/';

/// Brings the revision of the group up to date with the sets on record.
pub(crate) fn note_revision(group: &mut Group, now: Timestamp) {
    let present = revision(group);
    let status = &mut group.status;
    let next = status.next_revision.take();
    if present.is_none() || present == status.revision {
        return;
    }
    status.next_revision = present.map(|revision| {
        let same = next.filter(|next| next.revision == revision);
        let since = same.map_or(Time(now), |next| next.since);
        NextRevision { revision, since }
    });
    if settles_at(group).is_some_and(|at| at <= now) {
        group.status.revision = group.status.next_revision.take().map(|next| next.revision);
    }
}

/// When the next revision is the settled one.
pub(crate) fn settles_at(group: &Group) -> Option<Timestamp> {
    let since = &group.status.next_revision.as_ref()?.since;
    since.0.checked_add(QUIET).ok() // an end beyond time never comes
}

/// Lifts what was condemned where people say so: each of their texts counts once, and only for the revision that the group has.
pub(crate) fn retry(group: &mut Group) {
    let present = revision(group);
    let (spec, status) = (&group.spec, &mut group.status);
    let Some(said) = &spec.retry else {
        return;
    };
    let named = said.split(AGAIN).next();
    let is_present = named == present.as_deref() && present == status.revision;
    if !is_present || status.retried.as_ref() == Some(said) {
        return;
    }
    status.retried = Some(said.clone());
    let condemned = status.sets.values_mut().filter(|set| set.condemned);
    for set in condemned {
        set.condemned = false;
        status.progressed = None;
    }
}

/// The hash of the sets on record and their revisions; nothing while one of the group is not on record.
fn revision(group: &Group) -> Option<String> {
    let noted = &group.status.sets;
    let is_whole = !noted.is_empty() && group.sets.iter().all(|set| noted.contains_key(&set.name));
    let parts = noted
        .iter()
        .flat_map(|(name, set)| [name.as_str(), set.update_revision.as_str()]);
    is_whole.then(|| sha256_hex(&parts.collect::<Vec<_>>()))
}
