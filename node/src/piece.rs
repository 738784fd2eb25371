//! A part of the content of a file.

use serde::{Deserialize, Serialize};

/// A piece of content. Text is never interpreted: a value from another source cannot name a secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// The secret with this name, substituted on this node.
    Secret(String),
}

impl Piece {
    /// Its size in bytes, without secrets.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Secret(text) => text.len(),
        }
    }
}
