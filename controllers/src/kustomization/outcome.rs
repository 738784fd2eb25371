//! The result of a step: what the status reports, and when to reconcile again.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::{
    conditions::{SHARED_OBJECT, Status},
    evidence::{Assumed, Progress},
    flux,
};
use muster_sync::{health::evidence::Watch, inventory::Inventory};

use super::{
    Error,
    settings::{Settings, UnsupportedSpec},
    work::Aim,
};

/// The reason of a Kustomization whose PlanRun does not exist yet.
pub(crate) const NOT_READY: &str = "PlanRunNotReady";
/// The reason of a Kustomization whose run failed for good.
pub(crate) const PLAN_FAILED: &str = "PlanFailed";

/// The result of acting on a decision.
#[derive(Debug)]
pub(super) enum ReconcileOutcome {
    /// Nothing to do until something changes.
    Idle,
    /// The object is gone, or will be: its run is dropped.
    Gone,
    /// Nothing is due before this time.
    Rest { until: Timestamp },
    /// The spec is not supported.
    Refused(UnsupportedSpec),
    /// A dependency or the source is not available.
    Waiting {
        reason: &'static str,
        message: String,
        after: Option<Duration>,
    },
    /// The applied objects are being deleted, and something still blocks that.
    Finalizing {
        /// Whether a failure blocks it; otherwise it is only waited for.
        failed: bool,
        message: String,
        inventory: flux::Inventory,
        after: Duration,
    },
    /// Applied, and healthy if that was to be checked.
    Succeeded {
        aim: Aim,
        settings: Settings,
        report: Applied,
    },
    /// Applied; not healthy yet, or pruned objects are not gone yet.
    Checking {
        aim: Aim,
        since: Timestamp,
        watch: Watch,
        wanted: Option<Inventory>,
        timeout: Duration,
        /// When the next check is due.
        after: Duration,
        awaited: Awaited,
        report: Applied,
    },
    /// Its plan is running.
    Stepping {
        aim: Aim,
        message: String,
        progress: Progress,
        /// When the next check is due.
        after: Duration,
    },
    /// Not applied, not healthy in time, or pruned objects were not gone in time.
    Failed {
        aim: Aim,
        settings: Settings,
        failure: Failure,
    },
}

/// What is waited for after applying, as text.
#[derive(Debug)]
pub(super) enum Awaited {
    /// The health of an object.
    Health(String),
    /// The deletion of a pruned object that a finalizer blocks.
    Termination(String),
}

/// The result of applying; a later health check only sets whether health was checked.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// The current inventory, if it was changed.
    pub inventory: Option<flux::Inventory>,
    /// Whether health was checked.
    pub checked: bool,
    /// The objects assumed healthy without evidence.
    pub assumed: Option<Assumed>,
    /// The progress of the objects that perform a rollout themselves.
    pub progress: Option<Progress>,
    /// The note about objects that others manage, if there are any.
    pub shared: Option<String>,
    /// What was changed, as text for people; empty if nothing was.
    pub changes: String,
}

/// Why a run failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Flux's reason for it.
    pub reason: &'static str,
    pub message: String,
    /// Whether it is likely to be transient.
    pub soon: bool,
    /// The current inventory, if it was changed.
    pub inventory: Option<flux::Inventory>,
}

impl ReconcileOutcome {
    /// What was changed in the cluster, as text for people; empty if nothing was.
    pub(super) fn changes(&self) -> &str {
        match self {
            Self::Succeeded { report, .. } | Self::Checking { report, .. } => &report.changes,
            Self::Idle
            | Self::Gone
            | Self::Rest { .. }
            | Self::Refused(_)
            | Self::Waiting { .. }
            | Self::Finalizing { .. }
            | Self::Stepping { .. }
            | Self::Failed { .. } => "",
        }
    }
}

impl Failure {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            soon: false,
            inventory: None,
        }
    }

    /// The source does not have what is needed.
    pub(super) fn artifact(message: impl Into<String>) -> Self {
        Self::new("ArtifactFailed", message)
    }

    /// The content cannot be built into objects.
    pub(super) fn build(message: impl Into<String>) -> Self {
        Self::new("BuildFailed", message)
    }

    /// The inventory cannot record an object under its own name.
    pub(super) fn misread_name(message: impl Into<String>) -> Self {
        Self::new("MisreadName", message)
    }

    /// The objects cannot be applied.
    pub(super) fn reconciliation(message: impl Into<String>) -> Self {
        Self::new("ReconciliationFailed", message)
    }

    /// Objects are managed by others, which declare them differently.
    pub(super) fn shared(message: impl Into<String>) -> Self {
        Self::new(SHARED_OBJECT, message)
    }

    /// Objects cannot be pruned.
    pub(super) fn prune(message: impl Into<String>, inventory: flux::Inventory) -> Self {
        Self {
            inventory: Some(inventory),
            ..Self::new("PruneFailed", message)
        }
    }

    /// Pruned objects are not gone in time: something in the cluster blocks their deletion.
    pub(super) fn not_gone(message: impl Into<String>) -> Self {
        Self::new("PruneFailed", message)
    }

    /// The record of the objects does not fit into the status.
    pub(super) fn too_large(objects: usize, bytes: usize, max: usize) -> Self {
        Self::reconciliation(format!(
            "TooLarge: the inventory of {objects} objects takes {bytes} bytes in the status, and at most {max} are allowed; split the path into several Kustomizations"
        ))
    }

    /// The path is empty, and that is not explicitly allowed.
    pub(super) fn empty() -> Self {
        let message = "the path contains no objects, and applying it would prune everything that was applied; if this is intended, annotate the Kustomization with fleet.muster.dev/allow-empty: \"true\"";
        Self::new("EmptyWouldPruneAll", message)
    }

    /// The applied objects are not healthy.
    pub(super) fn unhealthy(message: impl Into<String>) -> Self {
        Self::new("HealthCheckFailed", message)
    }

    /// A run of its plan failed for good.
    pub(super) fn plan(message: impl Into<String>) -> Self {
        Self::new(PLAN_FAILED, message)
    }

    /// Sets the current inventory.
    #[must_use]
    pub(super) fn with(self, inventory: Option<flux::Inventory>) -> Self {
        Self { inventory, ..self }
    }

    /// Marks the failure as likely to be transient.
    #[must_use]
    pub(super) fn soon(self) -> Self {
        Self { soon: true, ..self }
    }
}

/// How an application ended without success.
pub(super) enum Trouble {
    /// With a failure to report in the status.
    Failure(Failure),
    /// Its plan is not finished: this is the outcome so far.
    Plan(Box<ReconcileOutcome>),
    /// The API server refused a write; nothing can be reported.
    Error(Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// The progress of the plan, for the status of the Kustomization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub status: Status,
    /// The state of a run; for a failed one, the class of the failure.
    pub reason: String,
    pub text: String,
}
