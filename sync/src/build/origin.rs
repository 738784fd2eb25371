//! The location and the identity of an object.

use std::fmt;
use std::sync::Arc;

use crate::yaml::{Document, Position};

/// The location of an object: `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The file, by the name in its source.
    pub file: Arc<str>,
    /// Position in the file.
    pub at: Position,
}

impl Origin {
    /// The location of a field given by its keys, or of its innermost existing parent.
    pub(super) fn of(document: &Document, field: &[&str]) -> Self {
        let mut node = &document.root;
        for key in field {
            let Some(value) = node.get(key) else { break };
            node = value;
        }
        let file = Arc::clone(&document.file);
        Self { file, at: node.at }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.at)
    }
}

/// The identity of an object, which does not include the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// API group; empty for the core.
    pub group: String,
    /// API group; empty for the core group.
    pub kind: String,
    /// As written; empty without one.
    pub namespace: String,
    /// Namespace as written in the manifest; empty if there is none.
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
