//! The object that a binding names.

use std::fmt;

/// The identity of an object, as a binding states it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// `v1`, `cluster.x-k8s.io/v1beta2`, ...
    pub api_version: String,
    /// The kind, such as `ConfigMap`.
    pub kind: String,
    /// The namespace; `None`: that of the module.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
