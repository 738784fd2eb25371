//! Change windows as one module has them: which clusters are closed for it, and what that means for each. Pure.
//!
//! ```text
//!   Windows ─┐
//!   cluster ─┼─► ModuleWindows::of_cluster ─► ClusterSeen { closed, window_change } ─► closed, apply ─► Unit { eligible }
//!   now ─────┘                                                     memory ─────────────────────┘
//! ```
//!
//! Invariant: a cluster that is closed is never open to the engine: at most it leaves the count of its stage, untouched.

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

use super::{facts::ClusterSeen, reasons::ineligible};
use crate::{registry::ClusterRow, rolloutwindow::Windows};

/// The windows of a namespace, asked for one module at one instant.
#[derive(Clone, Debug)]
pub(crate) struct ModuleWindows {
    windows: Windows,
    kind: ModuleKind,
    name: String,
    labels: BTreeMap<String, String>,
    /// The instant.
    pub now: Timestamp,
}

/// What answers about the windows of a module rest on, apart from the cluster and the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    windows: u64,
    labels: BTreeMap<String, String>,
}

impl ModuleWindows {
    /// Of a module.
    pub(crate) fn new<K: ModuleObject>(module: &K, windows: Windows, now: Timestamp) -> Self {
        Self {
            windows,
            kind: K::KIND,
            name: module.name_any(),
            labels: module.labels().clone(),
            now,
        }
    }

    /// Answers of another version say nothing about this one.
    pub(crate) fn version(&self) -> Version {
        Version {
            windows: self.windows.version(),
            labels: self.labels.clone(),
        }
    }

    /// Why no change may begin in a cluster, and when that answer may change. Nothing is evaluated where there are no windows.
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

/// When the first window of a cluster opens or closes, or another answer about it changes.
pub(crate) fn next_change(clusters: &[ClusterSeen]) -> Option<Timestamp> {
    clusters.iter().filter_map(|cluster| cluster.window_change).min()
}

/// Why no change begins in a unit that could be touched otherwise.
pub(crate) fn closed(closed: &Closed, is_behind: bool, rollout: &Rollout) -> Eligible {
    Eligible::Closed {
        why: ineligible(closed.reason(), rollout),
        reverts: closed.reverts == WhileClosed::Allow,
        // What other modules still need is not left either.
        withdrawals: closed.withdrawals == WhileClosed::Allow && !is_behind,
    }
}

/// What closes a cluster that could be touched otherwise.
pub(crate) fn closing<'a>(cluster: &'a ClusterSeen, unit: &Unit) -> Option<&'a Closed> {
    let closed = cluster.closed.as_deref()?;
    let hindered = matches!(unit.eligible, Eligible::No(why) if why.code != closed.reason().code());
    (!hindered).then_some(closed)
}
