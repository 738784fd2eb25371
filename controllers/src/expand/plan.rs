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

/// A write, with what it was decided on.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create a source that is not there.
    CreateSource(FluxObject),
    /// Put a source right; carries the resourceVersion.
    ReplaceSource(FluxObject),
    /// Create a Kustomization that is not there.
    Create(Box<Kustomization>),
    /// Put a Kustomization right; carries the resourceVersion.
    Replace(Box<Kustomization>),
    /// Put the PlanRun of a Kustomization, before it is carried out by it.
    PutPlanRun(Box<PlanRun>),
    /// Put what is done by hand into the PlanRun of a Kustomization that is being deleted: what else its spec says stays.
    ControlPlanRun {
        /// The name of both.
        name: String,
        /// What is done.
        control: Box<PlanControl>,
    },
    /// Ask for exactly this Kustomization to be carried out at once.
    Ask {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
        /// What its controller answers.
        request: String,
    },
    /// Delete exactly this Kustomization.
    Delete {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
    },
}

/// What is to be done for a row, and what its status says.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The writes.
    pub writes: Vec<Write>,
    /// The row's status.
    pub state: SyncState,
    /// Something could not be read: it is to be looked at again soon.
    pub again: bool,
    /// After what time something changes that nothing tells of.
    pub after: Option<Duration>,
}

impl Plan {
    /// Nothing to write.
    pub const fn rest(state: SyncState) -> Self {
        Self::new(state, Vec::new())
    }

    /// These writes.
    pub const fn new(state: SyncState, writes: Vec<Write>) -> Self {
        Self {
            writes,
            state,
            again: false,
            after: None,
        }
    }
}

/// What a Kustomization is asked by, for a row: its token, or without one what its annotations say.
pub fn request(row: &SyncRow, annotations: BTreeMap<&String, &String>) -> String {
    if let Some(token) = row.token {
        let asked = format!("{}-{token}", labels::MUSTER);
        return match &row.plan_control {
            Some(control) => format!("{asked}-{}", control.id),
            None => asked,
        };
    }
    let parts: Vec<&str> = annotations
        .into_iter()
        .flat_map(|(key, value)| [key.as_str(), value])
        .collect();
    format!("{}-{}", labels::MUSTER, digest::short(&parts))
}
