//! The observed state: the object, the last attempt, the time. Nothing is read over the network here; only the fetch
//! does that.

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    flux::{GitRepository, GitRepositorySpec},
    labels::{annotation, finalizer},
};

use super::{Repositories, attempts::Attempt};
use crate::runtime::Key;

/// What is known about a repository.
#[derive(Clone, Debug)]
pub(super) struct Observed<'a> {
    pub uid: String,
    pub generation: i64,
    pub spec: &'a GitRepositorySpec,
    /// Whether Flux reconciles the object.
    pub flux: bool,
    /// The reconcile request: the value of its annotation.
    pub requested: Option<String>,
    /// Whether the object is being deleted, and if so whether muster's finalizer is on it.
    pub deleting: Option<bool>,
    pub attempt: Option<Attempt>,
    pub now: Timestamp,
}

pub(super) fn observe<'a>(object: &'a GitRepository, repositories: &Repositories) -> Observed<'a> {
    let held = object
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == finalizer::FLUX);
    Observed {
        uid: object.uid().unwrap_or_default(),
        generation: object.metadata.generation.unwrap_or_default(),
        spec: &object.spec,
        flux: repositories.flux.is_there(),
        requested: object
            .annotations()
            .get(annotation::RECONCILE_REQUESTED_AT)
            .cloned(),
        deleting: object.metadata.deletion_timestamp.as_ref().map(|_| held),
        attempt: repositories.attempts.get(&Key::of(object)),
        now: repositories.context.clock.now(),
    }
}
