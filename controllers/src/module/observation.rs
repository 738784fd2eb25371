//! The input of a decision about one module.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::module::ModuleObject;
use muster_rollout::{Memory, Millis, Unit};

use super::{
    cluster_view::{Basis, ClusterView},
    controls::Controls,
    dependencies::Ties,
    facts::{Definition, Invalid, ObservedCluster, Pinned, RevisionRow, Target},
    gates::Answers,
    history,
    memory::Recalled,
    refusals,
    windows::ModuleWindows,
};

/// Everything that a decision depends on.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// Why nothing can be decided, if so.
    pub invalid: Option<Invalid>,
    /// Whether the module is being deleted.
    pub deleting: bool,
    /// Controls from the module's annotations.
    pub controls: Controls,
    /// The desired state.
    pub target: Target,
    /// The last good revision that the memory names, in full.
    pub last_good: Option<Definition>,
    /// Whether clusters are skipped while their machines are being replaced.
    pub avoids_upgrades: bool,
    /// Its dependencies, dependents and successors.
    pub ties: Ties,
    /// The engine's memory.
    pub memory: Recalled,
    /// How long there was no leader since the memory was written.
    pub gap: Duration,
    /// When the status was last written only because of what it says about clusters.
    pub reported_at: Option<Timestamp>,
    /// The rows that the API server refused.
    pub refused: refusals::Rows,
    /// The change windows that apply to this module.
    pub windows: ModuleWindows,
    /// The observed clusters.
    pub view: ClusterView,
    /// The module's revisions, by name of the ModuleRevision.
    pub revisions: BTreeMap<String, RevisionRow>,
    /// The last readings of its gates.
    pub gates: Answers,
}

impl Observation {
    /// The desired content of a cluster: its pin, or else the target.
    pub(crate) fn shall_have<'a>(&'a self, pinned: Option<&'a Pinned>) -> Option<&'a Definition> {
        let pinned = pinned.map(|pinned| &*pinned.definition);
        pinned.or_else(|| self.target.definition())
    }

    /// Whether there is a desired version: the module is neither invalid nor being deleted.
    pub(crate) const fn has_target(&self) -> bool {
        self.invalid.is_none() && !self.deleting
    }

    /// The clusters, sorted by name.
    pub(crate) fn clusters(&self) -> &[ObservedCluster] {
        &self.view.clusters
    }

    /// A cluster by name.
    pub(crate) fn cluster(&self, name: &str) -> Option<&ObservedCluster> {
        let clusters = self.clusters();
        let place = clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name));
        place.ok().and_then(|place| clusters.get(place))
    }

    /// The content that a cluster is rolled back to; none for a pinned cluster.
    pub(crate) fn comes_from(&self, pinned: Option<&Pinned>) -> Option<&Definition> {
        self.last_good.as_ref().filter(|_| pinned.is_none())
    }

    /// What the observed clusters depend on; `None` if that includes the state of other modules, or rows that no watch
    /// keeps.
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
            muster_driver::Recalled::Lost(history::recorded_verdicts(&self.revisions))
        } else {
            muster_driver::Recalled::Kept {
                memory: &found.memory,
                gap: self.gap.into(),
            }
        };
        recalled.believed(units, now).into_owned()
    }
}
