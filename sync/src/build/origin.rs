//! Where an object is written, and what it is the same as.

use std::fmt;
use std::sync::Arc;

use crate::yaml::{Document, Position};

/// Where an object is written: `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The file, as its source names it.
    pub file: Arc<str>,
    /// The place in it.
    pub at: Position,
}

impl Origin {
    /// The place of a field by its keys, or of what should hold it.
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
