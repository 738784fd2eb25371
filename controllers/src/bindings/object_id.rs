//! Which object a binding names.

use std::fmt;

/// An object, by what a binding says of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// `v1`, `cluster.x-k8s.io/v1beta2`, ...
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; none: that of the module.
    pub namespace: Option<String>,
    /// The name.
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
