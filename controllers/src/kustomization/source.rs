//! The sources of Kustomizations: a few fields of each GitRepository of the namespace.

use std::collections::BTreeSet;

use kube::{ResourceExt, runtime::reflector::Store};
use muster_api::{
    conditions::{READY, find},
    flux::{Artifact, GitRepository, Kustomization},
};

use crate::{
    gitrepository::remote::RepositoryAccess,
    runtime::{Index, Key},
};

/// The fields that are read of a GitRepository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceRow {
    pub address: RepositoryAccess,
    /// The revision of its artifact, the last good one.
    pub revision: Option<String>,
    /// Whether its artifact is a leftover of Flux: it is about to be fetched again.
    pub left_by_flux: bool,
    /// The message of its Ready condition while it is not True.
    pub trouble: Option<String>,
}

/// The sources by the keys of their objects.
pub(super) type Sources = Index<GitRepository, SourceRow>;

/// An index of sources; [`dependents`] finds the Kustomizations that a change affects.
pub(super) fn sources() -> Sources {
    Index::new(
        |object| Some(SourceRow::of(object)),
        |key, _row| vec![key.clone()],
    )
}

/// The Kustomizations that take their manifests from a source.
pub(super) fn dependents(store: &Store<Kustomization>, source: &Key) -> BTreeSet<Key> {
    let all = store.state();
    all.iter()
        .filter(|object| key_of(object) == *source)
        .map(|object| Key::of(&**object))
        .collect()
}

/// The key of the source of a Kustomization.
pub(super) fn key_of(object: &Kustomization) -> Key {
    let reference = &object.spec.source_ref;
    let own = object.namespace().unwrap_or_default();
    Key::new(reference.namespace.clone().unwrap_or(own), reference.name.clone())
}

impl SourceRow {
    fn of(object: &GitRepository) -> Self {
        let status = object.status.as_ref();
        let ready = status.and_then(|status| find(&status.conditions, READY));
        let artifact = status.and_then(|status| status.artifact.as_ref());
        // A suspended source is not fetched: its last artifact is intended.
        let suspended = object.spec.suspend == Some(true);
        let left_by_flux = artifact.is_some_and(is_fluxs) && !suspended;
        let artifact = artifact.filter(|_| !left_by_flux);
        Self {
            address: RepositoryAccess::of(object),
            revision: artifact.map(|artifact| artifact.revision.clone()),
            left_by_flux,
            trouble: ready
                .filter(|ready| ready.status != "True")
                .map(|ready| format!("{}: {}", ready.reason, ready.message)),
        }
    }
}

/// Whether an artifact is in Flux's storage: then it is served from there.
fn is_fluxs(artifact: &Artifact) -> bool {
    !artifact.url.is_empty()
}
