//! NodeRevisions: which are on record, which are forgotten, and what they say of verdicts. Pure.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    names,
    node::{
        NodeModule,
        revision::{NodeEvidence, NodeRevisionStatus},
    },
    revision::Verdict,
};
use muster_driver::Verdicts;
use muster_rollout::{Evidence, Memory, Millis, Revision, RunState};

use super::{facts::RevisionFacts, observation::Observation};
use crate::module::instants::{millis, timestamp};

/// Condemned revisions that are kept, whatever `historyLimit` says.
const MOST_BAD: usize = 100;

/// The name of the NodeRevision of a revision.
pub fn name(module: &str, uid: &str, revision: &str) -> String {
    names::node_revision(module, uid, revision)
}

/// What stands on record of verdicts, for a memory that is lost.
pub fn verdicts(revisions: &[RevisionFacts]) -> Verdicts {
    let of = |verdict: Verdict| {
        revisions
            .iter()
            .filter(move |revision| revision.status.verdict == Some(verdict))
            .filter_map(|revision| Some((Revision::parse(&revision.definition.revision)?, revision)))
    };
    let last_good = of(Verdict::Good).max_by_key(|(_, revision)| revision.created);
    let evidence = |revision: &RevisionFacts| {
        let first = revision.status.evidence.first();
        let at = first
            .and_then(|evidence| evidence.at.as_ref().map(|at| at.0))
            .or(revision.created);
        let node = first.map_or("", |evidence| &evidence.node);
        let message = first.map_or("on record of the NodeRevision", |evidence| &evidence.message);
        Evidence::new(node.into(), message, at.map_or(Millis(0), millis))
    };
    let bad: BTreeMap<Revision, Evidence> = of(Verdict::Bad)
        .map(|(revision, on_record)| (revision, evidence(on_record)))
        .collect();
    Verdicts {
        last_good: last_good.map(|(revision, _)| revision),
        bad,
    }
}

/// What a NodeRevision says of itself once this memory stands: what a lost memory is rebuilt from.
pub fn story(known: &RevisionFacts, memory: &Memory, now: Timestamp) -> Option<NodeRevisionStatus> {
    let revision = Revision::parse(&known.definition.revision)?;
    let before = &known.status;
    let run = memory.run.filter(|run| run.target == revision);
    let open = run.is_some_and(|run| run.state == RunState::Open);
    let verdict = match (memory.verdict(revision), run) {
        (Some(muster_rollout::Verdict::Bad), _) => Some(Verdict::Bad),
        (Some(muster_rollout::Verdict::Good), _) => Some(Verdict::Good),
        (None, Some(run)) => (run.state == RunState::Aborted).then_some(Verdict::Aborted),
        // It had a run, which another one replaced; what never had one has no story.
        (None, None) => before
            .verdict
            .or_else(|| before.started.as_ref().map(|_| Verdict::Superseded)),
    };
    let started = run
        .map(|run| whole(timestamp(run.started)))
        .or_else(|| before.started.clone());
    let again = started != before.started;
    let finished = match &before.finished {
        _ if open || verdict.is_none() => None,
        Some(finished) if !again => Some(finished.clone()),
        _ => Some(whole(now)),
    };
    let recorded = memory.course.recorded.as_ref().filter(|_| run.is_some());
    let evidence = match memory.bad.get(&revision).or(recorded) {
        Some(bad) => vec![NodeEvidence {
            node: bad.unit.to_string(),
            at: Some(whole(timestamp(bad.at))),
            message: bad.message.to_string(),
        }],
        // It is tried again: what was observed before says nothing any more.
        None if open => Vec::new(),
        None => before.evidence.clone(),
    };
    Some(NodeRevisionStatus {
        started,
        finished,
        verdict,
        evidence,
    })
}

/// Times of objects are whole seconds.
fn whole(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// The NodeRevisions beyond the limit, oldest first: neither what a node has or may get, nor what is condemned.
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

/// The NodeRevisions of a NodeModule that are not kept any more, once this memory stands.
pub fn surplus(module: &NodeModule, seen: &Observation, memory: &Memory) -> Vec<RevisionFacts> {
    let used: BTreeSet<&str> = seen
        .nodes
        .iter()
        .filter_map(|node| {
            node.row(module.metadata.name.as_deref()?)?
                .row
                .revision
                .as_deref()
        })
        .collect();
    let target = seen.target.as_ref().map(|target| target.revision.as_str());
    let is_used = |revision: &str| used.contains(revision) || target == Some(revision);
    let surplus = forgotten(
        &seen.revisions,
        memory,
        is_used,
        module.spec.rollout.history_limit,
    );
    surplus.into_iter().cloned().collect()
}
