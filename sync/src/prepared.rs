//! An object that is ready to be applied.

use std::fmt;

use muster_api::labels::annotation;
use serde_json::Value;

use crate::inventory::ObjectId;

/// An object that is ready to be applied.
#[derive(Clone, PartialEq)]
pub struct Prepared {
    /// Its identity in the cluster.
    pub id: ObjectId,
    /// The version that it is written in.
    pub version: String,
    /// What is sent.
    pub body: Value,
    /// What its annotations and labels ask for.
    pub wishes: Wishes,
}

/// What an object's author asks for, by annotations or labels under `kustomize.toolkit.fluxcd.io/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// `ssa: Ignore` or `reconcile: disabled`: hands off.
    pub ignore: bool,
    /// `ssa: IfNotPresent`: created, and never changed.
    pub if_not_present: bool,
    /// `ssa: Merge`: what people changed with kubectl stays theirs.
    pub merge: bool,
    /// `force: enabled`: deleted and created again where an immutable field changes.
    pub force: bool,
    /// `prune: disabled`, or hands off: never deleted.
    pub keep: bool,
}

impl fmt::Debug for Prepared {
    /// Without the body, which may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("id", &self.id)
            .field("version", &self.version)
            .field("wishes", &self.wishes)
            .finish_non_exhaustive()
    }
}

impl Prepared {
    /// The `apiVersion` that it is written in.
    pub fn api_version(&self) -> String {
        self.id.api_version(&self.version)
    }
}

impl Wishes {
    /// What the metadata of an object asks for.
    pub fn of(object: &Value) -> Self {
        let is = |key: &str, value: &str| {
            ["annotations", "labels"].iter().any(|place| {
                object
                    .pointer(&format!("/metadata/{place}"))
                    .and_then(|map| map.get(key))
                    .and_then(Value::as_str)
                    .is_some_and(|found| found.eq_ignore_ascii_case(value))
            })
        };
        let ignore =
            is(annotation::KUSTOMIZE_RECONCILE, "disabled") || is(annotation::KUSTOMIZE_SSA, "Ignore");
        Self {
            ignore,
            if_not_present: is(annotation::KUSTOMIZE_SSA, "IfNotPresent"),
            merge: is(annotation::KUSTOMIZE_SSA, "Merge"),
            force: is(annotation::KUSTOMIZE_FORCE, "enabled"),
            keep: ignore || is(annotation::KUSTOMIZE_PRUNE, "disabled"),
        }
    }
}
