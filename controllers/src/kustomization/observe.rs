//! The observed state: the object, its source, its dependencies, its last run, the time. All of it is in memory.

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    conditions::{READY, find},
    flux::{DeletionPolicy, Kustomization},
    labels::{annotation, finalizer},
};

use super::{
    Kustomizations, dependencies,
    settings::{self, Settings, UnsupportedSpec},
    source::{self, SourceRow},
    work::Run,
};
use crate::runtime::Key;

/// What is known about a Kustomization.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub uid: String,
    pub generation: i64,
    pub settings: Result<Settings, UnsupportedSpec>,
    /// Whether Flux reconciles the object.
    pub flux: bool,
    pub suspended: bool,
    pub deleting: bool,
    /// Whether muster's finalizer is set.
    pub held: bool,
    /// Whether its deletion leaves all applied objects.
    pub orphans: bool,
    /// The reconcile request: the value of its annotation.
    pub requested: Option<String>,
    /// The annotation that allows an empty path.
    pub allow_empty: bool,
    pub source_name: Key,
    pub source: Option<SourceRow>,
    /// The revision that the status reports as attempted, at the current generation.
    pub spoken_of: Option<String>,
    /// The first dependency that is not ready.
    pub waits_for: Option<String>,
    pub run: Option<Run>,
    pub now: Timestamp,
}

pub(super) fn observe(object: &Kustomization, kustomizations: &Kustomizations) -> Observed {
    let namespace = object.namespace().unwrap_or_default();
    let source_name = source::key_of(object);
    let source = kustomizations.sources.get(&source_name);
    let revision = source
        .as_ref()
        .and_then(|source| source.revision.as_deref())
        .unwrap_or_default();
    let find = |key: &Key| kustomizations.store.get(&key.object_ref());
    let needed = &object.spec.depends_on;
    let waits_for = dependencies::circle(&Key::of(object), needed, find)
        .or_else(|| dependencies::first_unready_dependency(&namespace, &source_name, revision, needed, find));
    Observed {
        uid: object.uid().unwrap_or_default(),
        generation: object.metadata.generation.unwrap_or_default(),
        settings: settings::parse_settings(&object.spec, object.annotations(), &namespace),
        flux: kustomizations.flux.is_there(),
        suspended: object.spec.suspend.unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        held: object
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == finalizer::FLUX),
        orphans: object.spec.deletion_policy == Some(DeletionPolicy::Orphan),
        requested: object
            .annotations()
            .get(annotation::RECONCILE_REQUESTED_AT)
            .cloned(),
        allow_empty: object
            .annotations()
            .get(annotation::ALLOW_EMPTY)
            .is_some_and(|value| value == "true"),
        spoken_of: spoken_of(object),
        waits_for,
        source,
        source_name,
        run: kustomizations.runs.get(&Key::of(object)),
        now: kustomizations.context.clock.now(),
    }
}

fn spoken_of(object: &Kustomization) -> Option<String> {
    let status = object.status.as_ref()?;
    let ready = find(&status.conditions, READY)?;
    if ready.observed_generation != object.metadata.generation {
        return None;
    }
    status.last_attempted_revision.clone()
}
