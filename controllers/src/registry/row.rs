//! A cluster as published to the rest of muster: a row.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use muster_api::cluster::NotReady;

/// Kind of a Cluster, at any version.
const CLUSTER: &str = "Cluster";

/// Whether a cluster is ready for rollouts, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// All checks passed.
    Ready,
    /// Nothing is rolled out to the cluster.
    NotReady {
        /// The first reason that applies.
        reason: NotReady,
        /// The message: what, where, what to do; without the time.
        message: String,
    },
}

impl ClusterState {
    /// The reason, if it is not ready.
    pub fn reason(&self) -> Option<NotReady> {
        match self {
            Self::Ready => None,
            Self::NotReady { reason, .. } => Some(*reason),
        }
    }

    /// The message, empty if it is ready.
    pub fn message(&self) -> &str {
        match self {
            Self::Ready => "",
            Self::NotReady { message, .. } => message,
        }
    }
}

/// A cluster of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRow {
    /// `apiVersion` at which the Cluster was read.
    pub api_version: String,
    /// Name of the Cluster.
    pub name: String,
    /// Uid of the Cluster.
    pub uid: String,
    /// Labels of the Cluster.
    pub labels: BTreeMap<String, String>,
    /// Selected annotations, see [`muster_api::cluster::Facts`].
    pub annotations: BTreeMap<String, String>,
    /// The state for a Module, from all rows of the table of states.
    pub state: ClusterState,
    /// When the present reason (or being ready) began.
    pub since: Timestamp,
    /// When its API server last answered.
    pub last_contact: Option<Timestamp>,
    /// The uid of its namespace `kube-system`, which identifies the actual cluster.
    pub identity: Option<String>,
    /// Whether its machines are being replaced, see [`muster_api::cluster::Facts`].
    pub upgrading: bool,
    /// Whether its Secret leads to another cluster than at first contact, or may do so: all other users of the Secret
    /// must stop, too.
    pub leads_elsewhere: bool,
}

/// The uid of the Cluster that owns an object, if any.
pub fn owner(object: &ObjectMeta) -> Option<&str> {
    let references = object.owner_references.as_deref().unwrap_or_default();
    references
        .iter()
        .find(|owner| owner.kind == CLUSTER)
        .map(|owner| owner.uid.as_str())
}

impl ClusterRow {
    /// Why an object with this [`owner`] is left alone: its owner is an earlier Cluster of this name, and the object
    /// will be garbage-collected with it.
    pub fn disowns(&self, owner: Option<&str>) -> Option<String> {
        let uid = owner.filter(|uid| *uid != self.uid)?;
        Some(format!(
            "it belongs to a Cluster {} that is gone (uid {uid}): nothing is done until garbage collection has removed it",
            self.name
        ))
    }

    /// An owner reference to this Cluster, neither controlling nor blocking.
    pub fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.clone(),
            kind: CLUSTER.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: None,
            block_owner_deletion: None,
        }
    }

    /// The state for a BootstrapModule, which does not need the kind Assemblage: [`NotReady::KindMissing`] counts as
    /// ready.
    pub fn bootstrap_state(&self) -> ClusterState {
        match self.state.reason() {
            Some(NotReady::KindMissing) => ClusterState::Ready,
            _ => self.state.clone(),
        }
    }

    /// Whether the change must be published: a new time of the last contact alone is not.
    pub(super) fn differs(&self, after: &Self) -> bool {
        let before = Self {
            last_contact: after.last_contact,
            ..self.clone()
        };
        before != *after
    }
}
