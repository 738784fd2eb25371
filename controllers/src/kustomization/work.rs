//! A run: what it is an attempt at, what is due of it, and how far it got.

use std::time::Duration;

use jiff::Timestamp;
use muster_sync::{health::evidence::Watch, inventory::Inventory};

use super::{settings::Settings, source::SourceRow};

/// What a run is an attempt at. Another one of these begins another run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Aim {
    pub uid: String,
    pub generation: i64,
    pub revision: String,
    /// The value of the annotation that asks for a reconciliation now.
    pub requested: Option<String>,
    /// The annotation that says that an empty path is meant.
    pub allow_empty: bool,
    /// For how long an object must be healthy where its controller gives no evidence.
    pub settle: Duration,
    /// Whether that may be taken for evidence.
    pub assumes: bool,
    /// The digest of the PlanRun by which it is carried out.
    pub plan: Option<String>,
}

/// An attempt, and how far it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub aim: Aim,
    pub phase: Phase,
}

/// How far a run got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Applied; the health of the targets is waited for, and the end of what was pruned.
    Checking {
        since: Timestamp,
        watch: Watch,
        /// The inventory of the revision, where objects that are not in it are not gone yet.
        wanted: Option<Inventory>,
    },
    /// Done or failed; to be applied again then.
    Resting { until: Timestamp },
}

/// An application that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Work {
    pub aim: Aim,
    pub settings: Settings,
    pub source: SourceRow,
    /// Whether the status does not speak of it yet: then it is announced.
    pub anew: bool,
}
