//! Rows that decisions are made of: what matters of StatefulSets and pods.

mod pod;
mod set;

pub use self::{
    pod::{Container, Owner, Pod, ReadyCondition},
    set::{Set, SetStatus},
};

/// The label that names the group of a StatefulSet.
pub const GROUP_LABEL: &str = "rollout-group";
/// The annotation that says since when a pod is ready, RFC 3339.
pub const READY_TIME_ANNOTATION: &str = "grafana.com/ready-time";
