//! The sources of Kustomizations: one small row for each GitRepository of the namespace.

use std::collections::BTreeSet;

use kube::{ResourceExt, runtime::reflector::Store};
use muster_api::{
    conditions::{READY, find},
    flux::{GitRepository, Kustomization},
};

use crate::{
    gitrepository::remote::Address,
    runtime::{Index, Key},
};

/// What is read of a GitRepository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceRow {
    pub address: Address,
    /// The revision of its artifact, the last good one.
    pub revision: Option<String>,
    /// What its Ready condition says while it is not True.
    pub trouble: Option<String>,
}

/// The rows by the keys of their objects.
pub(super) type Sources = Index<GitRepository, SourceRow>;

/// An index of sources; what a change concerns is found by [`dependents`].
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
        Self {
            address: Address::of(object),
            revision: status
                .and_then(|status| status.artifact.as_ref())
                .map(|artifact| artifact.revision.clone()),
            trouble: ready
                .filter(|ready| ready.status != "True")
                .map(|ready| format!("{}: {}", ready.reason, ready.message)),
        }
    }
}
