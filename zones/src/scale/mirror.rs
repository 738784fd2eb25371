//! Sets whose replicas mirror the subresource `scale` of another resource.

use std::collections::BTreeMap;

/// The annotation with the name of the mirrored resource.
pub const NAME: &str = "grafana.com/rollout-mirror-replicas-from-resource-name";
/// The annotation with the kind of the mirrored resource.
pub const KIND: &str = "grafana.com/rollout-mirror-replicas-from-resource-kind";
/// The annotation with the group and version of the mirrored resource; without it, the kind is in the core group.
pub const API_VERSION: &str = "grafana.com/rollout-mirror-replicas-from-resource-api-version";
/// Whether `status.replicas` of the resource is written: yes by default; if the annotation is set, only if its value is
/// a boolean that is true.
pub const WRITE_BACK: &str = "grafana.com/rollout-mirror-replicas-from-resource-write-back";

/// A resource that a set mirrors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Group and version, such as `my.group/v1`; empty for the core group.
    pub api_version: String,
    /// Kind of the resource.
    pub kind: String,
    /// Name of the resource, in the namespace of the set.
    pub name: String,
}

/// The subresource `scale` of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// `spec.replicas`.
    pub spec: u32,
    /// `status.replicas`.
    pub status: u32,
}

/// The resource that a set mirrors; `None` if the name or the kind is missing.
pub fn reference(annotations: &BTreeMap<String, String>) -> Option<Reference> {
    let annotation = |key: &str| annotations.get(key).cloned().unwrap_or_default();
    let reference = Reference {
        api_version: annotation(API_VERSION),
        kind: annotation(KIND),
        name: annotation(NAME),
    };
    (!reference.name.is_empty() && !reference.kind.is_empty()).then_some(reference)
}

/// Whether the number of replicas is written to the status of the resource. Booleans are parsed as in Go.
pub fn writes_back(annotations: &BTreeMap<String, String>) -> bool {
    const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
    annotations
        .get(WRITE_BACK)
        .is_none_or(|value| TRUE.contains(&value.as_str()))
}
