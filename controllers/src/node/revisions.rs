//! NodeRevisions: which are recorded, and which are deleted. Pure.

use std::{cmp::Reverse, collections::BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    conditions::bounded,
    names,
    node::{
        NodeModule,
        revision::{NodeEvidence, NodeRevisionStatus},
    },
    schema::MAX_MESSAGE,
};
use muster_rollout::{Memory, Revision, RunState};

use super::{facts::RevisionFacts, observation::Observation};
use crate::module::history;

/// The number of condemned revisions that are kept, whatever `historyLimit` is.
const MOST_BAD: usize = 100;

/// The name of the NodeRevision of a revision.
pub fn name(module: &str, uid: &str, revision: &str) -> String {
    names::node_revision_name(module, uid, revision)
}

/// The statuses that must be written, each with its NodeRevision.
pub fn changed_stories<'a>(
    revisions: &'a [RevisionFacts],
    memory: &Memory,
    now: Timestamp,
) -> Vec<(&'a RevisionFacts, NodeRevisionStatus)> {
    let changed = revisions.iter().filter_map(|known| {
        let story = story(known, memory, now)?;
        (story != known.status).then_some((known, story))
    });
    changed.collect()
}

/// The status of a NodeRevision once this memory is written.
pub fn story(known: &RevisionFacts, memory: &Memory, now: Timestamp) -> Option<NodeRevisionStatus> {
    let revision = Revision::parse(&known.definition.revision)?;
    let before = &known.status;
    let run = memory.run.filter(|run| run.target == revision);
    let is_open = run.is_some_and(|run| run.state == RunState::Open);
    let verdict = history::revision_verdict(memory, revision, before.verdict, before.started.is_some());
    let started = run
        .map(|run| Time(truncate_to_seconds(history::time(run.started).0)))
        .or_else(|| before.started.clone());
    let finished = match &before.finished {
        _ if is_open => None,
        Some(finished) if started == before.started => Some(finished.clone()),
        _ => verdict.map(|_| Time(truncate_to_seconds(now))),
    };
    let recorded = memory.course.recorded.as_ref().filter(|_| run.is_some());
    let evidence = match memory.bad.get(&revision).or(recorded) {
        Some(bad) => vec![NodeEvidence {
            node: bad.unit.to_string(),
            at: Some(Time(truncate_to_seconds(history::time(bad.at).0))),
            message: bounded(&bad.message, MAX_MESSAGE).into_owned(),
        }],
        // It is retried: earlier evidence no longer counts.
        None if is_open => Vec::new(),
        None => before.evidence.clone(),
    };
    Some(NodeRevisionStatus {
        started,
        finished,
        verdict,
        evidence,
    })
}

/// Times of objects are whole seconds, those of the memory are finer: without truncation each pass would find a
/// difference.
fn truncate_to_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The NodeRevisions to delete.
pub fn surplus_revisions(module: &NodeModule, observed: &Observation, memory: &Memory) -> Vec<RevisionFacts> {
    let used: BTreeSet<&str> = observed
        .nodes
        .iter()
        .filter_map(|node| {
            node.row(module.metadata.name.as_deref()?)?
                .row
                .revision
                .as_deref()
        })
        .collect();
    let target = observed.target.as_ref().map(|target| target.revision.as_str());
    let pinned = observed.pinned.values();
    let pinned: BTreeSet<&str> = pinned.map(|pinned| &*pinned.definition.revision).collect();
    let is_used =
        |revision: &str| used.contains(revision) || pinned.contains(revision) || target == Some(revision);
    let surplus = forgotten(
        &observed.revisions,
        memory,
        is_used,
        module.spec.rollout.history_limit,
    );
    surplus.into_iter().cloned().collect()
}

/// The NodeRevisions beyond the limit, oldest first: neither those that nodes have or may get, nor the condemned ones.
pub fn forgotten<'a>(
    revisions: &'a [RevisionFacts],
    memory: &Memory,
    used: impl Fn(&str) -> bool,
    limit: u32,
) -> Vec<&'a RevisionFacts> {
    let mut newest: Vec<&RevisionFacts> = revisions.iter().collect();
    newest.sort_by_key(|revision| Reverse((revision.created, revision.name.clone())));
    let is_bad = |revision: &RevisionFacts| {
        Revision::parse(&revision.definition.revision)
            .is_some_and(|revision| memory.bad.contains_key(&revision))
    };
    let named = |revision: &RevisionFacts| {
        let parsed = Revision::parse(&revision.definition.revision);
        let target = memory.run.map(|run| run.target);
        parsed.is_some() && (parsed == memory.last_good || parsed == target)
    };
    let (bad, others): (Vec<_>, Vec<_>) = newest.into_iter().partition(|revision| is_bad(revision));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let surplus = others
        .into_iter()
        .skip(limit)
        .chain(bad.into_iter().skip(MOST_BAD));
    let mut surplus: Vec<_> = surplus
        .filter(|revision| !named(revision) && !used(&revision.definition.revision))
        .collect();
    surplus.reverse();
    surplus
}
