//! A run: what it attempts, what is due, and its progress.

use std::time::Duration;

use jiff::Timestamp;
use muster_sync::{health::evidence::Watch, inventory::Inventory};

use super::{settings::Settings, source::SourceRow};

/// What a run attempts. A change of any of these starts another run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Aim {
    pub uid: String,
    pub generation: i64,
    pub revision: String,
    /// The reconcile request: the value of its annotation.
    pub requested: Option<String>,
    /// The annotation that allows an empty path.
    pub allow_empty: bool,
    /// How long an object must be healthy if its controller gives no evidence.
    pub settle: Duration,
    /// Whether such an object may be assumed healthy.
    pub assumes: bool,
    /// The digest of the PlanRun that it is applied by.
    pub plan: Option<String>,
}

/// An attempt, and its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub aim: Aim,
    pub phase: Phase,
}

/// The progress of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Applied; the health of the targets and the deletion of pruned objects are waited for.
    Checking {
        since: Timestamp,
        watch: Watch,
        /// The inventory of the revision, if objects that are not in it are not gone yet.
        wanted: Option<Inventory>,
    },
    /// Succeeded or failed; it is applied again at this time.
    Resting { until: Timestamp },
}

/// An application that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Work {
    pub aim: Aim,
    pub settings: Settings,
    pub source: SourceRow,
    /// Whether the status does not report it yet: then it is announced.
    pub is_new: bool,
}
