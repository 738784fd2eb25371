//! Replaces the text of scalars in a file, and keeps every other byte.
//!
//! The result is parsed again and compared: the chosen scalars have their new values, as strings, and nothing else
//! differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::{BOM, Document, Kind, Node, Position, YamlError, documents, value};

/// A scalar and its new value.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    /// The scalar, as parsed.
    pub node: &'a Node,
    /// The new value.
    pub text: &'a str,
}

/// Why a file cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// The file cannot be parsed.
    #[error(transparent)]
    Read(#[from] YamlError),
    /// The value is not written literally in one place: an alias, an anchor, a block scalar, or with escapes.
    #[error(
        "{file}:{at}: this is not a plain or quoted scalar that can be edited automatically: change it by hand"
    )]
    Intricate {
        /// Name of the file.
        file: String,
        /// Position of the scalar.
        at: Position,
    },
}

/// The file with new values for these scalars. `file` is for messages.
pub fn replace(file: &str, text: &str, edits: &[Edit<'_>]) -> Result<String, EditError> {
    let before = documents(file, text.as_bytes())?;
    let wanted: BTreeMap<Position, &str> = edits.iter().map(|edit| (edit.node.at, edit.text)).collect();
    let first = edits.iter().map(|edit| edit.node.at).min();
    let intricate = || EditError::Intricate {
        file: file.to_owned(),
        at: first.unwrap_or(Position { line: 1, column: 1 }),
    };
    for always_quoted in [false, true] {
        let edited = spliced(text, edits, always_quoted).ok_or_else(intricate)?;
        let Ok(after) = documents(file, edited.as_bytes()) else {
            continue;
        };
        let mut changed = 0;
        let same = before.len() == after.len()
            && before
                .iter()
                .zip(&after)
                .all(|(before, after)| is_same(before, after, &wanted, &mut changed));
        // An alias repeats a position: it would be edited more than once.
        if same && changed == wanted.len() {
            return Ok(edited);
        }
    }
    Err(intricate())
}

/// The text with each scalar's token replaced; `None` if one is not a token on a single line.
fn spliced(text: &str, edits: &[Edit<'_>], always_quoted: bool) -> Option<String> {
    let mut places = Vec::new();
    for edit in edits {
        let start = offset(text, edit.node.at)?;
        let Kind::Scalar(scalar) = &edit.node.kind else {
            return None;
        };
        let quote = text[start..]
            .chars()
            .next()
            .filter(|c| !scalar.plain && matches!(c, '"' | '\''));
        let token = match quote {
            Some(quote) => format!("{quote}{}{quote}", scalar.text),
            None => scalar.text.clone(),
        };
        let replaced = match quote {
            Some(quote) if !always_quoted => format!("{quote}{}{quote}", edit.text),
            None if !always_quoted => edit.text.to_owned(),
            _ => serde_json::to_string(edit.text).ok()?, // a text always becomes JSON
        };
        let end = start + token.len();
        (!token.is_empty() && text.get(start..end) == Some(&*token)).then_some(())?;
        places.push((start, end, replaced));
    }
    places.sort();
    let mut edited = text.to_owned();
    for (start, end, replaced) in places.into_iter().rev() {
        edited.replace_range(start..end, &replaced);
    }
    Some(edited)
}

/// The byte offset of a position. Lines end with a newline here; where the parser recognizes other line breaks, the
/// comparison fails.
fn offset(text: &str, at: Position) -> Option<usize> {
    let lines = text.split_inclusive('\n');
    let start: usize = lines.clone().take(at.line.checked_sub(1)?).map(str::len).sum();
    let line = lines.clone().nth(at.line.checked_sub(1)?)?;
    // A byte order mark does not count as a column.
    let mark = if line.starts_with(BOM) { BOM.len() } else { 0 };
    let (column, _) = line[mark..].char_indices().nth(at.column.checked_sub(1)?)?;
    Some(start + mark + column)
}

fn is_same(
    before: &Document,
    after: &Document,
    wanted: &BTreeMap<Position, &str>,
    changed: &mut usize,
) -> bool {
    same_node(&before.root, (after, &after.root), wanted, changed)
}

fn same_node(
    before: &Arc<Node>,
    (document, after): (&Document, &Arc<Node>),
    wanted: &BTreeMap<Position, &str>,
    changed: &mut usize,
) -> bool {
    let mut same =
        |before: &Arc<Node>, after: &Arc<Node>| same_node(before, (document, after), wanted, changed);
    match (&before.kind, &after.kind) {
        (Kind::Scalar(old), Kind::Scalar(new)) => match wanted.get(&before.at) {
            Some(text) => {
                *changed += 1;
                value::value_of(&document.file, after).is_ok_and(|value| value.as_str() == Some(text))
            }
            None => old == new,
        },
        (Kind::Sequence(old), Kind::Sequence(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new))
        }
        (Kind::Mapping(old), Kind::Mapping(new)) => {
            old.len() == new.len()
                && old
                    .iter()
                    .zip(new)
                    .all(|(old, new)| same(&old.0, &new.0) && same(&old.1, &new.1))
        }
        _ => false,
    }
}
