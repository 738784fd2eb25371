//! Parses YAML as kubectl does, from yaml-rust2's events, with file, line and column in every error.
//!
//! ```text
//! bytes ──text──► characters ──events──► tree of scalars, as written ──(substitution)──► tree ──value──► JSON
//!        (BOM, controls,        (aliases, tags,                                   (scalars by go-yaml's rules,
//!         directives, `...`)     depth, budgets)                                   merge keys, no duplicates)
//! ```
//!
//! Invariant: the value is what `kubectl apply` makes of the same bytes, or there is an error: duplicate keys, unknown
//! tags and text that kubectl silently drops are errors here, and a mapping's own keys take precedence over merged
//! ones.

pub mod edit;
mod error;
mod events;
mod json;
mod lenient;
mod node;
mod scalar;
mod source;
mod text;
mod value;

use std::sync::Arc;

use serde_json::Value;

pub use self::error::{Position, YamlError, YamlProblem};
pub use self::node::{Document, Kind, Node, Scalar, Tag};
use self::text::Chunk;

/// The byte order mark that Windows editors write at the start of a file.
const BOM: &str = "\u{feff}";

/// Maximum depth of nested collections.
pub const MAX_DEPTH: usize = 100;

/// Maximum number of nodes that aliases may produce in one document: far more than anyone writes by hand, far fewer
/// than an alias bomb needs.
pub const ALIAS_BUDGET: usize = 10_000;

/// The documents of a file, in order; empty ones are skipped. `file` is for messages.
pub fn documents(file: &str, bytes: &[u8]) -> Result<Vec<Document>, YamlError> {
    let file: Arc<str> = file.into();
    let text = text::check(&file, bytes)?;
    let documents = if text.trim_start().starts_with('{') {
        json::json_documents(&file, &text)?
    } else {
        events::parse_documents(&file, Chunk::of_text(&text))?
    };
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_empty())
        .collect())
}

/// The only document of a text, as JSON; `null` for an empty text.
pub fn to_json(text: impl AsRef<[u8]>) -> Result<Value, YamlError> {
    let documents = documents("<text>", text.as_ref())?;
    match documents.as_slice() {
        [] => Ok(Value::Null),
        [document] => document.value(),
        [_, second, ..] => Err(YamlError::new(
            &second.file,
            second.root.at,
            YamlProblem::SeveralDocuments,
        )),
    }
}
