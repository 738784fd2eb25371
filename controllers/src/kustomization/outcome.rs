//! What came of a step: what the status says, and when to look again.

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
    settings::{Refusal, Settings},
    work::Aim,
};

/// The reason of a Kustomization whose PlanRun is not there yet.
pub(crate) const NOT_READY: &str = "PlanRunNotReady";
/// The reason of a Kustomization whose run failed for good.
pub(crate) const PLAN_FAILED: &str = "PlanFailed";

/// What came of a decision.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Nothing is to be done until something changes.
    Idle,
    /// The object is gone, or will be: its run is forgotten.
    Gone,
    /// Nothing is due before then.
    Rest { until: Timestamp },
    /// The spec cannot be carried out.
    Refused(Refusal),
    /// What it needs is not there.
    Waiting {
        reason: &'static str,
        message: String,
        after: Option<Duration>,
    },
    /// What it applied is being deleted, and something still holds it.
    Finalizing {
        /// Whether it is held by a failure; else it is only waited for.
        failed: bool,
        message: String,
        inventory: flux::Inventory,
        after: Duration,
    },
    /// Applied, and healthy as far as that was asked for.
    Succeeded {
        aim: Aim,
        settings: Settings,
        report: Applied,
    },
    /// Applied; not healthy yet, or what was pruned is not gone yet.
    Checking {
        aim: Aim,
        since: Timestamp,
        watch: Watch,
        wanted: Option<Inventory>,
        timeout: Duration,
        /// How soon more may be known.
        after: Duration,
        awaited: Awaited,
        report: Applied,
    },
    /// Its plan is under way.
    Stepping {
        aim: Aim,
        message: String,
        progress: Progress,
        /// How soon more may be known.
        after: Duration,
    },
    /// Not applied, not healthy in time, or what was pruned was not gone in time.
    Failed {
        aim: Aim,
        settings: Settings,
        failure: Failure,
    },
}

/// What is waited for after applying, in words.
#[derive(Debug)]
pub(super) enum Awaited {
    /// The health of an object.
    Health(String),
    /// The end of a pruned object that a finalizer holds.
    Termination(String),
}

/// What applying came to; of a later health check nothing but whether health was asked for.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// The inventory now, if it was touched.
    pub inventory: Option<flux::Inventory>,
    /// Whether health was asked for.
    pub checked: bool,
    /// What was taken to be healthy without evidence.
    pub assumed: Option<Assumed>,
    /// How far those objects are that roll something out themselves.
    pub progress: Option<Progress>,
    /// What is said of objects that others hold, if there are any.
    pub shared: Option<String>,
    /// What was changed, for people; empty if nothing was.
    pub changes: String,
}

/// Why a run failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Flux's word for it.
    pub reason: &'static str,
    pub message: String,
    /// Whether it is likely to pass by itself.
    pub soon: bool,
    /// The inventory now, if it was touched.
    pub inventory: Option<flux::Inventory>,
}

impl Outcome {
    /// What was changed in the cluster, for people; empty if nothing was.
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

    /// The source has not what is needed.
    pub(super) fn artifact(message: impl Into<String>) -> Self {
        Self::new("ArtifactFailed", message)
    }

    /// The content cannot be made into objects.
    pub(super) fn build(message: impl Into<String>) -> Self {
        Self::new("BuildFailed", message)
    }

    /// The inventory could not record an object under its own name.
    pub(super) fn misread_name(message: impl Into<String>) -> Self {
        Self::new("MisreadName", message)
    }

    /// The objects cannot be applied.
    pub(super) fn reconciliation(message: impl Into<String>) -> Self {
        Self::new("ReconciliationFailed", message)
    }

    /// Others hold objects that they declare differently.
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

    /// Pruned objects are not gone in time: something in the cluster holds them.
    pub(super) fn not_gone(message: impl Into<String>) -> Self {
        Self::new("PruneFailed", message)
    }

    /// The record of so many objects does not fit into the status.
    pub(super) fn too_large(objects: usize, bytes: usize, max: usize) -> Self {
        Self::reconciliation(format!(
            "TooLarge: the inventory of {objects} objects takes {bytes} bytes in the status, and at most {max} are written; divide \
             the path among several Kustomizations"
        ))
    }

    /// The path is empty, and that is not meant as far as anyone said.
    pub(super) fn empty() -> Self {
        let message = "the path holds no objects, and carrying that out would prune everything that was applied; if that \
                       is meant, annotate the Kustomization with fleet.muster.dev/allow-empty: \"true\"";
        Self::new("EmptyWouldPruneAll", message)
    }

    /// What was applied is not healthy.
    pub(super) fn unhealthy(message: impl Into<String>) -> Self {
        Self::new("HealthCheckFailed", message)
    }

    /// A run of its plan failed for good.
    pub(super) fn plan(message: impl Into<String>) -> Self {
        Self::new(PLAN_FAILED, message)
    }

    /// The inventory is this by now.
    #[must_use]
    pub(super) fn with(self, inventory: Option<flux::Inventory>) -> Self {
        Self { inventory, ..self }
    }

    /// It is likely to pass by itself.
    #[must_use]
    pub(super) fn soon(self) -> Self {
        Self { soon: true, ..self }
    }
}

/// How an application ended other than well.
pub(super) enum Trouble {
    /// With something to say in the status.
    Failure(Failure),
    /// Its plan is not over: this is what came of it so far.
    Plan(Box<Outcome>),
    /// Our own API server did not take a write; nothing can be said.
    Error(Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Where the plan stands, for the status of the Kustomization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub status: Status,
    /// A state of a run; of one that failed, the class of the failure.
    pub reason: String,
    pub text: String,
}
