//! The state of a rollout, from its ModuleRevision and the status of its module. Pure.

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

/// The maximum length of a cluster's or a condition's text in a notification, in bytes.
const MAX_TEXT: usize = 500;
/// The number of failed clusters in a notification at most.
const MAX_EVIDENCE: usize = 5;

/// The notified facts of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleRow {
    /// The uid of the module.
    pub uid: Option<String>,
    /// The labels of the module, by which receivers select.
    pub labels: BTreeMap<String, String>,
    /// The revision that its status is about.
    pub revision: Option<String>,
    /// The number of clusters by state.
    pub summary: Summary,
    /// Why it is paused, if it is.
    pub paused: Option<String>,
    /// What waits for an approval, if anything.
    pub approval: Option<String>,
}

impl ModuleRow {
    /// The facts of a module.
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
            paused: conditions::find(conditions, conditions::PAUSED).map(|paused| truncated(&paused.message)),
            // An approval is waited for only while nothing else is in progress.
            approval: waits
                .filter(|_| summary.updating == 0)
                .map(|waits| truncated(&waits.message)),
            summary,
        }
    }
}

/// The identity of a rollout.
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
    /// The version for people: the tag, or the first digits of the commit.
    pub version: String,
    /// The commit of the revision.
    pub commit: String,
    /// The repository of the commit.
    pub repository: String,
    /// When it started: a retried revision is another rollout.
    pub started: Timestamp,
}

impl Rollout {
    /// The same in all messages about it, and different for other rollouts.
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

/// The state of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RolloutState {
    /// The identity of the rollout.
    pub rollout: Rollout,
    /// The phase of the rollout.
    pub phase: Phase,
    /// When it finished, if it did.
    pub finished: Option<Timestamp>,
    /// The number of clusters by state.
    pub clusters: Summary,
    /// A few of the clusters on which it failed, with the evidence.
    pub evidence: Vec<(String, String)>,
    /// The cause, if the phase does not say it all.
    pub why: Option<String>,
}

/// The state of the rollout of a revision; `None` if there is no rollout, or none to notify.
pub(crate) fn rollout_standing(
    revision: &ModuleRevision,
    module: Option<&ModuleRow>,
) -> Option<RolloutState> {
    let spec = &revision.spec;
    let status = revision.status.as_ref()?;
    // Revisions that are deleted with their module are not notified.
    let module = module
        .filter(|module| spec.module_ref.uid.is_none() || module.uid == spec.module_ref.uid)
        .filter(|_| revision.meta().deletion_timestamp.is_none())?;
    let is_target = module.revision.as_ref() == Some(&spec.revision);
    // A rollout in progress is notified once the status of its module shows it: the two are watched separately.
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
    let cluster_message = |evidence: &Evidence| (evidence.cluster.clone(), truncated(&evidence.message));
    Some(RolloutState {
        rollout: Rollout {
            namespace: revision.namespace().unwrap_or_default(),
            kind: spec.module_ref.kind,
            module: spec.module_ref.name.clone(),
            revision: spec.revision.clone(),
            version: spec.sync.source.version().display_version(Some(&spec.commit)),
            commit: spec.commit.clone(),
            repository: spec.sync.source.url().to_owned(),
            started: status.started.as_ref()?.0,
        },
        phase,
        finished: status.finished.as_ref().map(|finished| finished.0),
        clusters,
        evidence: status
            .evidence
            .iter()
            .take(MAX_EVIDENCE)
            .map(cluster_message)
            .collect(),
        why,
    })
}

fn truncated(text: &str) -> String {
    bounded(text, MAX_TEXT).into_owned()
}
