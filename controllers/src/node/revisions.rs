//! NodeRevisions: which are on record, which are forgotten, and what they say of verdicts. Pure.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use muster_api::{names, node::NodeModule, revision::Verdict};
use muster_driver::Verdicts;
use muster_rollout::{Evidence, Memory, Millis, Revision};

use super::{facts::RevisionFacts, observation::Observation};
use crate::module::instants::millis;

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
            .filter(move |revision| revision.verdict == Some(verdict))
            .filter_map(|revision| Some((Revision::parse(&revision.definition.revision)?, revision)))
    };
    let last_good = of(Verdict::Good).max_by_key(|(_, revision)| revision.created);
    let evidence = |revision: &RevisionFacts| {
        let at = revision.created.map_or(Millis(0), millis);
        Evidence::new("".into(), "on record of the NodeRevision", at)
    };
    let bad: BTreeMap<Revision, Evidence> = of(Verdict::Bad)
        .map(|(revision, on_record)| (revision, evidence(on_record)))
        .collect();
    Verdicts {
        last_good: last_good.map(|(revision, _)| revision),
        bad,
    }
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
