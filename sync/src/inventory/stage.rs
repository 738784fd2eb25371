//! The order of applying: which kinds must be there before others can be. Pure.

use super::ObjectId;

/// The stages, in the order in which they are applied; pruning goes the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Namespaces and CustomResourceDefinitions: without them other objects have no place or no kind.
    Definitions,
    /// Classes and cluster roles: others name them and are refused or idle without them.
    Classes,
    /// Everything else, custom resources included: their definitions are established by now.
    Rest,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 3] = [Self::Definitions, Self::Classes, Self::Rest];
}

/// The order within the last stage: what others mount, bind or select comes first, what intercepts requests comes last.
/// Eight objects are applied at a time, so this is a preference and no promise.
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
pub fn of(group: &str, kind: &str) -> Stage {
    match (group, kind) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => Stage::Definitions,
        ("rbac.authorization.k8s.io", "ClusterRole") => Stage::Classes,
        _ if kind.ends_with("Class") => Stage::Classes,
        _ => Stage::Rest,
    }
}

/// The stage of an object.
pub fn of_id(id: &ObjectId) -> Stage {
    of(&id.group, &id.kind)
}

/// The place of a kind within its stage.
pub fn rank(group: &str, kind: &str) -> usize {
    if group == "admissionregistration.k8s.io" {
        return RANKS.len() + 1;
    }
    RANKS
        .iter()
        .position(|ranked| *ranked == kind)
        .unwrap_or(RANKS.len())
}
