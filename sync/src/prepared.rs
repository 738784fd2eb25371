//! An object that is ready to apply.

use std::fmt;

use muster_api::labels::annotation;
use serde_json::Value;

use crate::inventory::ObjectId;

/// An object that is ready to apply.
#[derive(Clone, PartialEq)]
pub struct Prepared {
    /// The identity of the object in the cluster.
    pub id: ObjectId,
    /// The API version in its manifest.
    pub version: String,
    /// The body to send.
    pub body: Value,
    /// The options set by its annotations and labels.
    pub wishes: ObjectPolicy,
}

/// Options that the author of an object sets by annotations or labels under `kustomize.toolkit.fluxcd.io/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectPolicy {
    /// `ssa: Ignore` or `reconcile: disabled`: never written.
    pub ignore: bool,
    /// `ssa: IfNotPresent`: created, and never changed.
    pub if_not_present: bool,
    /// `ssa: Merge`: fields changed with kubectl are kept.
    pub merge: bool,
    /// `force: enabled`: deleted and created again if an immutable field changes.
    pub force: bool,
    /// `prune: disabled`, or never written: never deleted.
    pub keep: bool,
}

impl fmt::Debug for Prepared {
    /// Omits the body, which may be that of a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("id", &self.id)
            .field("version", &self.version)
            .field("wishes", &self.wishes)
            .finish_non_exhaustive()
    }
}

impl Prepared {
    /// The `apiVersion` in the manifest.
    pub fn api_version(&self) -> String {
        self.id.api_version(&self.version)
    }
}

impl ObjectPolicy {
    /// The options in the metadata of an object.
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
