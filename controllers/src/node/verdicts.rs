//! The verdicts of NodeRevisions: the memory of a rollout is rebuilt from them. Pure.

use std::collections::BTreeMap;

use muster_api::{node::revision::NodeEvidence, revision::Verdict};
use muster_driver::Verdicts;
use muster_rollout::{Evidence, Millis, Revision};

use super::facts::RevisionFacts;
use crate::module::instants::millis;

/// The recorded verdicts, for a lost memory.
pub fn recorded_verdicts(revisions: &[RevisionFacts]) -> Verdicts {
    let of = |verdict: Verdict| {
        revisions
            .iter()
            .filter(move |revision| revision.status.verdict == Some(verdict))
            .filter_map(|revision| Some((Revision::parse(&revision.definition.revision)?, revision)))
    };
    // A revision that was rolled back to ended later than one that was created after it.
    let ended = |revision: &RevisionFacts| {
        let finished = revision.status.finished.as_ref().map(|time| time.0);
        (finished, revision.created)
    };
    let last_good = of(Verdict::Good).max_by_key(|(_, revision)| ended(revision));
    let evidence = |revision: &RevisionFacts| {
        let Some(NodeEvidence { node, at, message }) = revision.status.evidence.first() else {
            let at = revision.created.map_or(Millis(0), millis);
            return Evidence::new("".into(), "in the record of the NodeRevision", at);
        };
        let at = at.as_ref().map_or(Millis(0), |at| millis(at.0)); // absent if written by an old version
        Evidence::new(node.as_str().into(), message, at)
    };
    let bad: BTreeMap<Revision, Evidence> = of(Verdict::Bad)
        .map(|(revision, on_record)| (revision, evidence(on_record)))
        .collect();
    Verdicts {
        last_good: last_good.map(|(revision, _)| revision),
        bad,
    }
}
