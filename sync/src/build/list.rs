//! Unrolls lists as kubectl does.

use std::sync::Arc;

use serde_json::Value;

use super::{BuildError, Origin};
use crate::yaml::{Document, Kind, Node};

/// The suffix of a list's kind.
const SUFFIX: &str = "List";

/// A document that becomes one object, with defaults from the list that contained it.
pub(super) struct Item {
    /// The parsed document.
    pub document: Document,
    /// `apiVersion` and `kind` for an item that has neither; items of a typed list may omit both.
    inferred: Option<(String, String)>,
}

impl Item {
    /// Fills in the defaults from the list.
    pub(super) fn complete(&self, object: &mut Value) {
        let (Some((api_version, kind)), Some(fields)) = (&self.inferred, object.as_object_mut()) else {
            return;
        };
        if !fields.contains_key("apiVersion") && !fields.contains_key("kind") {
            fields.insert("apiVersion".to_owned(), Value::String(api_version.clone()));
            fields.insert("kind".to_owned(), Value::String(kind.clone()));
        }
    }
}

/// The documents with their lists unrolled, including nested lists; the nesting is bounded by the parser.
pub(super) fn unrolled(documents: Vec<Document>) -> Result<Vec<Item>, BuildError> {
    let mut items = Vec::new();
    for document in documents {
        unroll(document, None, &mut items)?;
    }
    Ok(items)
}

fn unroll(
    document: Document,
    inferred: Option<(String, String)>,
    out: &mut Vec<Item>,
) -> Result<(), BuildError> {
    let text = |key: &str| document.root.get(key).and_then(|node| node.text());
    let list_kind = text("kind").and_then(|kind| kind.strip_suffix(SUFFIX));
    let (Some(kind), Some(items)) = (list_kind, document.root.get("items")) else {
        out.push(Item { document, inferred });
        return Ok(());
    };
    // The kind `List` implies no kind of its items.
    let inferred = text("apiVersion")
        .filter(|_| !kind.is_empty())
        .map(|api_version| (api_version.to_owned(), kind.to_owned()));
    for root in elements(&document, items)? {
        let file = Arc::clone(&document.file);
        let root = Arc::clone(root);
        unroll(Document { file, root }, inferred.clone(), out)?;
    }
    Ok(())
}

fn elements<'a>(document: &Document, items: &'a Node) -> Result<&'a [Arc<Node>], BuildError> {
    match &items.kind {
        Kind::Sequence(elements) => Ok(elements),
        Kind::Scalar(scalar) if scalar.plain && matches!(scalar.text.as_str(), "" | "~" | "null") => Ok(&[]),
        Kind::Scalar(_) | Kind::Mapping(_) => Err(BuildError::Field {
            origin: Origin {
                file: Arc::clone(&document.file),
                at: items.at,
            },
            field: "items".to_owned(),
            why: "must be a list",
        }),
    }
}
