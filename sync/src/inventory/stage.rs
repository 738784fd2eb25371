//! The order of applying: which kinds must exist before others. Pure.

use super::ObjectId;

/// The stages, in the order of applying; pruning uses the reverse order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Namespaces and CustomResourceDefinitions: other objects need their namespace and their kind.
    Definitions,
    /// Classes and cluster roles: objects that reference them are refused or do nothing without them.
    Classes,
    /// Everything else, including custom resources: their definitions are established by now.
    Rest,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 3] = [Self::Definitions, Self::Classes, Self::Rest];
}

/// The order within the last stage: what others mount, bind or select is first, what intercepts requests is last. Eight
/// objects are applied at a time, so this is a preference, not a guarantee.
const RANKS: [&str; 16] = [
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Pod",
];

/// The stage of a kind.
pub fn stage_of(group: &str, kind: &str) -> Stage {
    match (group, kind) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => Stage::Definitions,
        ("rbac.authorization.k8s.io", "ClusterRole") => Stage::Classes,
        _ if kind.ends_with("Class") => Stage::Classes,
        _ => Stage::Rest,
    }
}

/// The stage of an object.
pub fn of_id(id: &ObjectId) -> Stage {
    stage_of(&id.group, &id.kind)
}

/// The position of a kind within its stage.
pub fn rank(group: &str, kind: &str) -> usize {
    if group == "admissionregistration.k8s.io" {
        return RANKS.len() + 1;
    }
    RANKS
        .iter()
        .position(|ranked| *ranked == kind)
        .unwrap_or(RANKS.len())
}
