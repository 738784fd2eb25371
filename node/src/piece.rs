//! A part of the content of a file.

use serde::{Deserialize, Serialize};

/// A piece of a content. What is text stays text, whatever it looks like: a value that comes from elsewhere names no secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Piece {
    /// Written as it is.
    Text(String),
    /// The secret of this name, filled in on this node.
    Secret(String),
}

impl Piece {
    /// Its bytes, without those of a secret.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Secret(text) => text.len(),
        }
    }
}
