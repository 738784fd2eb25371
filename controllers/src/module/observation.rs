//! What a decision about one module rests on.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::module::ModuleObject;
use muster_rollout::{Memory, Millis, Unit};

use super::{
    controls::Controls,
    dependencies::Ties,
    facts::{ClusterSeen, Definition, Invalid, Pinned, RevisionRow, Target},
    gates::Answers,
    history,
    memory::Recalled,
    refusals,
    sight::{Basis, Sight},
    windows::ModuleWindows,
};

/// Everything that a decision rests on.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// Why nothing can be decided at all.
    pub invalid: Option<Invalid>,
    /// The module is being deleted.
    pub deleting: bool,
    /// What people say by annotations.
    pub controls: Controls,
    /// What is wanted.
    pub target: Target,
    /// The last good revision that the memory names, in full.
    pub last_good: Option<Definition>,
    /// It keeps out of a cluster whose machines are being replaced.
    pub avoids_upgrades: bool,
    /// What it needs, and who needs it.
    pub ties: Ties,
    /// What the engine remembers.
    pub memory: Recalled,
    /// How long nobody led since that was written.
    pub gap: Duration,
    /// When the status was last written for nothing but what it says of clusters.
    pub reported_at: Option<Timestamp>,
    /// The rows that could not be written.
    pub refused: refusals::Rows,
    /// The change windows.
    pub windows: ModuleWindows,
    /// The clusters.
    pub sight: Sight,
    /// The module's revisions, by name of the ModuleRevision.
    pub revisions: BTreeMap<String, RevisionRow>,
    /// What its gates said last, each of what is asked now.
    pub gates: Answers,
}

impl Observation {
    /// What a cluster shall have that is pinned to this, or to nothing.
    pub(crate) fn shall_have<'a>(&'a self, pinned: Option<&'a Pinned>) -> Option<&'a Definition> {
        let pinned = pinned.map(|pinned| &*pinned.definition);
        pinned.or_else(|| self.target.definition())
    }

    /// A version is wanted: the module is neither invalid nor being deleted.
    pub(crate) const fn has_target(&self) -> bool {
        self.invalid.is_none() && !self.deleting
    }

    /// The clusters, by name.
    pub(crate) fn clusters(&self) -> &[ClusterSeen] {
        &self.sight.clusters
    }

    /// A cluster by its name.
    pub(crate) fn cluster(&self, name: &str) -> Option<&ClusterSeen> {
        let clusters = self.clusters();
        let place = clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name));
        place.ok().and_then(|place| clusters.get(place))
    }

    /// What it would go back to: whoever is pinned neither comes from there nor goes back.
    pub(crate) fn comes_from(&self, pinned: Option<&Pinned>) -> Option<&Definition> {
        self.last_good.as_ref().filter(|_| pinned.is_none())
    }

    /// None: what is seen rests on how other modules stand, or on rows that no watch keeps.
    pub(crate) fn basis<K: ModuleObject>(&self, module: &K) -> Option<Basis> {
        let lasts = !self.ties.any() && !self.memory.lost;
        lasts.then(|| Basis {
            uid: module.uid(),
            generation: module.meta().generation,
            annotations: module.annotations().clone(),
            windows: self.windows.version(),
            deleting: self.deleting,
            target: self.target.definition().cloned(),
            last_good: self.last_good.clone(),
        })
    }

    /// The memory; a lost one is rebuilt from the rows and from the verdicts of ModuleRevisions (W7).
    pub(crate) fn remembered(&self, units: &[Unit], now: Millis) -> Memory {
        let found = &self.memory;
        let recalled = if found.lost {
            muster_driver::Recalled::Lost(history::verdicts(&self.revisions))
        } else {
            muster_driver::Recalled::Kept {
                memory: &found.memory,
                gap: self.gap.into(),
            }
        };
        recalled.believed(units, now).into_owned()
    }
}
