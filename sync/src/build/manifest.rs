//! One object and where it is written.

use std::fmt;
use std::sync::Arc;

use kube::core::GroupVersionKind;
use serde_json::Value;

use super::BuildError;
use crate::yaml::Position;

/// Where an object is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The file, by its path from the root of the repository.
    pub file: Arc<str>,
    /// The place in it.
    pub at: Position,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.at.line)
    }
}

/// What makes an object the same as another one; the version does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// API group; empty for the core.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// As written; empty without one.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for Identity {
    /// As in `Deployment.apps default/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// An object that could be applied: it has apiVersion, kind and metadata.name.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The whole object.
    pub object: Value,
    /// Where it is written.
    pub origin: Origin,
}

impl Manifest {
    pub(super) fn new(object: Value, origin: Origin) -> Result<Self, BuildError> {
        let field = |field, why| {
            Err(BuildError::Field {
                origin: origin.clone(),
                field,
                why,
            })
        };
        if !object.is_object() {
            return field("the document", "must be an object");
        }
        for (pointer, name) in [
            ("/apiVersion", "apiVersion"),
            ("/kind", "kind"),
            ("/metadata/name", "metadata.name"),
        ] {
            match object.pointer(pointer) {
                Some(Value::String(text)) if !text.is_empty() => {}
                None if name == "metadata.name" && object.pointer("/metadata/generateName").is_some() => {
                    return field(name, "is missing; generateName would make a new object each time");
                }
                None | Some(Value::Null) => return field(name, "is missing"),
                Some(Value::String(_)) => return field(name, "is empty"),
                Some(_) => return field(name, "must be text; quote it"),
            }
        }
        match object.pointer("/metadata/namespace") {
            None | Some(Value::Null | Value::String(_)) => Ok(Self { object, origin }),
            Some(_) => field("metadata.namespace", "must be text; quote it"),
        }
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        let (group, version) = match self.text("/apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", self.text("/apiVersion")),
        };
        GroupVersionKind::gvk(group, version, self.text("/kind"))
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `metadata.namespace`, if there is one.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.text("/metadata/namespace")).filter(|namespace| !namespace.is_empty())
    }

    /// What it is the same as.
    pub fn identity(&self) -> Identity {
        let gvk = self.gvk();
        let namespace = self.namespace().unwrap_or_default().to_owned();
        Identity {
            group: gvk.group,
            kind: gvk.kind,
            namespace,
            name: self.name().to_owned(),
        }
    }

    fn text(&self, pointer: &str) -> &str {
        self.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}
