//! What is to be done for a row.

use std::{collections::BTreeMap, time::Duration};

use muster_api::{
    assemblage::{SyncRow, SyncState},
    digest,
    flux::Kustomization,
    labels,
    plan::{PlanControl, PlanRun},
};

use super::flux_object::FluxObject;

/// A write, with its preconditions.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create a source that does not exist.
    CreateSource(FluxObject),
    /// Correct a source; has the resourceVersion.
    ReplaceSource(FluxObject),
    /// Create a Kustomization that does not exist.
    Create(Box<Kustomization>),
    /// Correct a Kustomization; has the resourceVersion.
    Replace(Box<Kustomization>),
    /// Write the PlanRun of a Kustomization, before the Kustomization refers to it.
    PutPlanRun(Box<PlanRun>),
    /// Write manual controls to the PlanRun of a Kustomization that is being deleted: the rest of its spec stays.
    ControlPlanRun {
        /// The name of the Kustomization and its PlanRun.
        name: String,
        /// The manual control.
        control: Box<PlanControl>,
    },
    /// Request a reconcile of exactly this Kustomization.
    Ask {
        /// The name of the Kustomization.
        name: String,
        /// The uid of the Kustomization.
        uid: String,
        /// The value of the request annotation, which the controller reports back.
        request: String,
    },
    /// Delete exactly this Kustomization.
    Delete {
        /// The name of the Kustomization.
        name: String,
        /// The uid of the Kustomization.
        uid: String,
        /// The resourceVersion of the Kustomization.
        resource_version: String,
    },
}

/// The writes for a row, and its status.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The writes.
    pub writes: Vec<Write>,
    /// The row's status.
    pub state: SyncState,
    /// Something could not be read: reconcile again soon.
    pub again: bool,
    /// When something changes that no watch reports.
    pub after: Option<Duration>,
}

impl Plan {
    /// A plan without writes.
    pub const fn rest(state: SyncState) -> Self {
        Self::new(state, Vec::new())
    }

    /// A plan with these writes.
    pub const fn new(state: SyncState, writes: Vec<Write>) -> Self {
        Self {
            writes,
            state,
            again: false,
            after: None,
        }
    }
}

/// The reconcile request for a row: its token, or without one a hash of its annotations.
pub fn reconcile_request(row: &SyncRow, annotations: BTreeMap<&String, &String>) -> String {
    if let Some(token) = row.token {
        let request = format!("{}-{token}", labels::MUSTER);
        return match &row.plan_control {
            Some(control) => format!("{request}-{}", control.id),
            None => request,
        };
    }
    let parts: Vec<&str> = annotations
        .into_iter()
        .flat_map(|(key, value)| [key.as_str(), value])
        .collect();
    format!("{}-{}", labels::MUSTER, digest::short_hash(&parts))
}
