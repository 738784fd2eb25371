//! How a rollout stands, from what is on record: its ModuleRevision, and the status of its module. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use muster_api::{
    ModuleRevision,
    conditions::{self, bounded},
    module::{ModuleKind, ModuleObject, Summary},
    reasons::Reason,
    revision::{Evidence, Verdict},
};

use super::phase::Phase;

/// The longest text of a cluster or a condition that is passed on, in bytes.
const MAX_TEXT: usize = 500;
/// Of the clusters on which a revision failed, so many are passed on.
const MAX_EVIDENCE: usize = 5;

/// Of a module, what is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleRow {
    /// Its uid.
    pub uid: Option<String>,
    /// Its labels, by which receivers choose.
    pub labels: BTreeMap<String, String>,
    /// The revision that its status is about.
    pub revision: Option<String>,
    /// Its clusters in numbers.
    pub summary: Summary,
    /// Why it is paused, if it is.
    pub paused: Option<String>,
    /// What waits for an approval, if something does.
    pub approval: Option<String>,
}

impl ModuleRow {
    /// The row of a module.
    pub(crate) fn of<K: ModuleObject>(module: &K) -> Self {
        let status = module.status();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let waits = status.and_then(|status| {
            let mut attention = status.attention.iter();
            attention.find(|one| one.reason == Reason::WaitingApproval.as_str())
        });
        let summary = status
            .and_then(|status| status.summary.clone())
            .unwrap_or_default();
        Self {
            uid: module.meta().uid.clone(),
            labels: module.labels().clone(),
            revision: status.and_then(|status| status.revision.clone()),
            paused: conditions::find(conditions, conditions::PAUSED).map(|paused| short(&paused.message)),
            // Who waits for a person waits while nothing else moves.
            approval: waits
                .filter(|_| summary.updating == 0)
                .map(|waits| short(&waits.message)),
            summary,
        }
    }
}

/// Which rollout it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The namespace of the module.
    pub namespace: String,
    /// The kind of the module.
    pub kind: ModuleKind,
    /// The name of the module.
    pub module: String,
    /// The hash of the revision.
    pub revision: String,
    /// The version as people write it: the tag, or the first digits of the commit.
    pub version: String,
    /// The commit.
    pub commit: String,
    /// The repository that it is in.
    pub repository: String,
    /// When it began: a revision that is tried again is another rollout.
    pub started: Timestamp,
}

impl Rollout {
    /// The same for all messages about it, and for no other rollout.
    pub fn id(&self) -> String {
        let Self {
            namespace,
            kind,
            module,
            revision,
            started,
            ..
        } = self;
        let revision = revision.get(..12).unwrap_or(revision);
        format!("{namespace}/{kind}/{module}/{revision}/{}", started.as_second())
    }
}

/// How a rollout stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Which one.
    pub rollout: Rollout,
    /// What it stands at.
    pub phase: Phase,
    /// When it ended, if it did.
    pub finished: Option<Timestamp>,
    /// The clusters in numbers.
    pub clusters: Summary,
    /// The clusters on which it failed, with what was seen; a few.
    pub evidence: Vec<(String, String)>,
    /// Why it is as it is, where the phase does not say it all.
    pub why: Option<String>,
}

/// How the rollout of a revision stands; `None` where there is none, or none to tell of.
pub(crate) fn standing(revision: &ModuleRevision, module: Option<&ModuleRow>) -> Option<Standing> {
    let spec = &revision.spec;
    let status = revision.status.as_ref()?;
    // What goes with its module is not told of.
    let module = module
        .filter(|module| spec.module_ref.uid.is_none() || module.uid == spec.module_ref.uid)
        .filter(|_| revision.meta().deletion_timestamp.is_none())?;
    let is_target = module.revision.as_ref() == Some(&spec.revision);
    // What is on its way is told of when its module is seen at it: the two are watched apart.
    if status.verdict.is_none() && !is_target {
        return None;
    }
    let (phase, why) = match status.verdict {
        Some(Verdict::Good) => (Phase::Good, None),
        Some(Verdict::Bad) => (Phase::Bad, None),
        Some(Verdict::Aborted) => (Phase::Aborted, None),
        Some(Verdict::Superseded) => (Phase::Superseded, None),
        None => match (&module.paused, &module.approval) {
            (Some(why), _) => (Phase::Paused, Some(why.clone())),
            (None, Some(why)) => (Phase::WaitingApproval, Some(why.clone())),
            (None, None) => (Phase::Rolling, None),
        },
    };
    let clusters = match &status.counts {
        Some(counts) if phase.is_over() => counts.clone(),
        _ if is_target => module.summary.clone(),
        _ => Summary::default(),
    };
    let seen = |evidence: &Evidence| (evidence.cluster.clone(), short(&evidence.message));
    Some(Standing {
        rollout: Rollout {
            namespace: revision.namespace().unwrap_or_default(),
            kind: spec.module_ref.kind,
            module: spec.module_ref.name.clone(),
            revision: spec.revision.clone(),
            version: spec.sync.source.version().short(Some(&spec.commit)),
            commit: spec.commit.clone(),
            repository: spec.sync.source.url().to_owned(),
            started: status.started.as_ref()?.0,
        },
        phase,
        finished: status.finished.as_ref().map(|finished| finished.0),
        clusters,
        evidence: status.evidence.iter().take(MAX_EVIDENCE).map(seen).collect(),
        why,
    })
}

fn short(text: &str) -> String {
    bounded(text, MAX_TEXT).into_owned()
}
