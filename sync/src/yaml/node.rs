//! A parsed document: scalars are text until [`Document::value`].

use std::sync::Arc;

use super::Position;

/// One document of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Name of the file.
    pub file: Arc<str>,
    /// The root node.
    pub root: Arc<Node>,
}

/// A node and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Position of the first character.
    pub at: Position,
    /// The content of the node.
    pub kind: Kind,
    /// The number of nodes in it, including itself and those from aliases.
    pub(super) size: usize,
}

/// The content of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A scalar.
    Scalar(Scalar),
    /// A sequence.
    Sequence(Vec<Arc<Node>>),
    /// Key-value pairs in the order of the text; duplicates are detected when the value is computed.
    Mapping(Vec<(Arc<Node>, Arc<Node>)>),
}

/// A scalar as text, with escapes and folding resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text of the scalar.
    pub text: String,
    /// Whether the scalar is plain (not quoted, not a block), so that its text determines its type.
    pub plain: bool,
    /// An explicit type tag.
    pub tag: Option<Tag>,
    /// Whether the text comes from a substitution: then no message contains it.
    pub expanded: bool,
}

/// The explicit type tags of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// `!!str`, or `!`.
    Str,
    /// `!!int`.
    Int,
    /// `!!float`.
    Float,
    /// `!!bool`.
    Bool,
    /// `!!null`.
    Null,
    /// `!!timestamp`: stays a string.
    Timestamp,
    /// `!!binary`: base64 of a string.
    Binary,
    /// `!!merge`.
    Merge,
}

impl Scalar {
    /// A plain scalar.
    pub(super) fn plain(text: String) -> Self {
        Self {
            text,
            plain: true,
            tag: None,
            expanded: false,
        }
    }

    /// A quoted scalar.
    pub(super) fn quoted(text: String) -> Self {
        Self {
            plain: false,
            ..Self::plain(text)
        }
    }
}

impl Document {
    /// The same document with new texts for its scalars, including keys; `None` leaves a scalar as it is.
    pub fn map_scalars<E>(
        &self,
        map: &mut impl FnMut(&Scalar, Position) -> Result<Option<String>, E>,
    ) -> Result<Self, E> {
        Ok(Self {
            file: Arc::clone(&self.file),
            root: map_node(&self.root, map)?,
        })
    }
}

impl Node {
    pub(super) fn new(at: Position, kind: Kind) -> Self {
        let size = 1 + match &kind {
            Kind::Scalar(_) => 0,
            Kind::Sequence(items) => items.iter().map(|item| item.size).sum(),
            Kind::Mapping(pairs) => pairs
                .iter()
                .map(|(key, value)| key.size + value.size)
                .sum::<usize>(),
        };
        Self { at, kind, size }
    }

    /// The value of a key of a mapping; the key is compared as text.
    pub fn get(&self, key: &str) -> Option<&Arc<Self>> {
        let Kind::Mapping(pairs) = &self.kind else {
            return None;
        };
        pairs
            .iter()
            .find(|(name, _)| name.text() == Some(key))
            .map(|(_, value)| value)
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(&scalar.text),
            Kind::Sequence(_) | Kind::Mapping(_) => None,
        }
    }
}

fn map_node<E>(
    node: &Arc<Node>,
    map: &mut impl FnMut(&Scalar, Position) -> Result<Option<String>, E>,
) -> Result<Arc<Node>, E> {
    let kind = match &node.kind {
        Kind::Scalar(scalar) => match map(scalar, node.at)? {
            None => return Ok(Arc::clone(node)),
            Some(text) => Kind::Scalar(Scalar {
                text,
                plain: scalar.plain,
                tag: scalar.tag,
                expanded: true,
            }),
        },
        Kind::Sequence(items) => Kind::Sequence(
            items
                .iter()
                .map(|item| map_node(item, map))
                .collect::<Result<_, E>>()?,
        ),
        Kind::Mapping(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, value)| Ok((map_node(key, map)?, map_node(value, map)?)));
            Kind::Mapping(pairs.collect::<Result<_, E>>()?)
        }
    };
    Ok(Arc::new(Node::new(node.at, kind)))
}
