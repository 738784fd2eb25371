//! A cluster as the rest of muster sees it: a row.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use muster_api::cluster::NotReady;

/// Its kind, of whatever version.
const CLUSTER: &str = "Cluster";

/// Whether something can be rolled to a cluster, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// Everything that was looked at is as it must be.
    Ready,
    /// Nothing is rolled to it.
    NotReady {
        /// The first reason that applies.
        reason: NotReady,
        /// What, where, what to do; without the time.
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
    /// `apiVersion` of the Cluster as it was read.
    pub api_version: String,
    /// The Cluster's name.
    pub name: String,
    /// The Cluster's uid.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations as [`muster_api::cluster::Facts`] has them.
    pub annotations: BTreeMap<String, String>,
    /// The state, all rows of the table: what a Module looks at.
    pub state: ClusterState,
    /// Since when the reason (or being ready) stands.
    pub since: Timestamp,
    /// The last time that its API server answered.
    pub last_contact: Option<Timestamp>,
    /// The uid of its namespace `kube-system`: which cluster it really is.
    pub identity: Option<String>,
    /// Its machines are being replaced, as [`muster_api::cluster::Facts`] has it.
    pub upgrading: bool,
    /// Its Secret leads to another cluster than at first contact, or that cannot be excluded: whoever else uses it must stop, too.
    pub leads_elsewhere: bool,
}

/// The uid of the Cluster that an object is a dependent of, if it is one's.
pub fn owner(object: &ObjectMeta) -> Option<&str> {
    let references = object.owner_references.as_deref().unwrap_or_default();
    references
        .iter()
        .find(|owner| owner.kind == CLUSTER)
        .map(|owner| owner.uid.as_str())
}

impl ClusterRow {
    /// Why nothing is done for an object with this [`owner`]: that Cluster had this name before, and the object goes with it.
    pub fn disowns(&self, owner: Option<&str>) -> Option<String> {
        let uid = owner.filter(|uid| *uid != self.uid)?;
        Some(format!(
            "it belongs to a Cluster {} that is gone (uid {uid}): nothing is done until garbage collection has removed it",
            self.name
        ))
    }

    /// What makes an object a dependent of this Cluster, and nothing more: it neither controls nor blocks.
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

    /// The state for a BootstrapModule, which does not need the kind Assemblage there: [`NotReady::KindMissing`] is ready.
    pub fn bootstrap_state(&self) -> ClusterState {
        match self.state.reason() {
            Some(NotReady::KindMissing) => ClusterState::Ready,
            _ => self.state.clone(),
        }
    }

    /// Whether readers have to know: the time of the last contact alone is no change.
    pub(super) fn differs(&self, after: &Self) -> bool {
        let before = Self {
            last_contact: after.last_contact,
            ..self.clone()
        };
        before != *after
    }
}
