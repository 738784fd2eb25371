//! Change windows for one module: which clusters are closed for it, and what that means for each. Pure.
//!
//! ```text
//!   Windows ─┐
//!   cluster ─┼─► ModuleWindows::of_cluster ─► ClusterSeen { closed, window_change } ─► closed, apply ─► Unit { eligible }
//!   now ─────┘                                                     memory ─────────────────────┘
//! ```
//!
//! Invariant: a closed cluster is never open to the engine: at most it is left out of its stage's count, unchanged.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    module::{ModuleKind, ModuleObject},
    rollout::Rollout,
    rolloutwindow::WhileClosed,
};
use muster_rollout::{Eligible, Unit};
use muster_windows::{Closed, Cluster, Module, State};

use super::{facts::ObservedCluster, reasons::ineligible};
use crate::{registry::ClusterRow, rolloutwindow::Windows};

/// The windows of a namespace, evaluated for one module at one instant.
#[derive(Clone, Debug)]
pub(crate) struct ModuleWindows {
    windows: Windows,
    kind: ModuleKind,
    name: String,
    labels: BTreeMap<String, String>,
    /// When they are evaluated.
    pub now: Timestamp,
}

/// What the evaluation for a module depends on, apart from the cluster and the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    windows: u64,
    labels: BTreeMap<String, String>,
}

impl ModuleWindows {
    /// For a module.
    pub(crate) fn new<K: ModuleObject>(module: &K, windows: Windows, now: Timestamp) -> Self {
        Self {
            windows,
            kind: K::KIND,
            name: module.name_any(),
            labels: module.labels().clone(),
            now,
        }
    }

    /// Results of different versions must not be mixed.
    pub(crate) fn version(&self) -> Version {
        Version {
            windows: self.windows.version(),
            labels: self.labels.clone(),
        }
    }

    /// Why no change may start in a cluster, and when that may change. Nothing is evaluated where there are no windows.
    pub(crate) fn of_cluster(&self, row: &ClusterRow) -> (Option<Box<Closed>>, Option<Timestamp>) {
        if self.windows.all().is_empty() {
            return (None, None);
        }
        let cluster = Cluster {
            labels: &row.labels,
            annotations: &row.annotations,
        };
        let module = Module {
            kind: self.kind,
            name: &self.name,
            labels: &self.labels,
        };
        let answer = muster_windows::evaluate(self.windows.all(), &cluster, &module, self.now);
        let closed = match answer.state {
            State::Open { .. } => None,
            State::Closed(closed) => Some(Box::new(closed)),
        };
        (closed, answer.next_change)
    }
}

/// When the first window of a cluster opens or closes, or its evaluation otherwise changes.
pub(crate) fn next_change(clusters: &[ObservedCluster]) -> Option<Timestamp> {
    clusters.iter().filter_map(|cluster| cluster.window_change).min()
}

/// Why no change starts in a unit that could be changed otherwise.
pub(crate) fn closed(closed: &Closed, is_behind: bool, rollout: &Rollout) -> Eligible {
    Eligible::Closed {
        why: ineligible(closed.reason(), rollout),
        reverts: closed.reverts == WhileClosed::Allow,
        // A module that others still depend on is not withdrawn either.
        withdrawals: closed.withdrawals == WhileClosed::Allow && !is_behind,
    }
}

/// The window that closes a cluster which could be changed otherwise.
pub(crate) fn closing<'a>(cluster: &'a ObservedCluster, unit: &Unit) -> Option<&'a Closed> {
    let closed = cluster.closed.as_deref()?;
    let hindered = matches!(unit.eligible, Eligible::No(why) if why.code != closed.reason().code());
    (!hindered).then_some(closed)
}
