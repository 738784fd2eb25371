//! A document as it is written: scalars are text until [`Document::value`].

use std::sync::Arc;

use super::Position;

/// One document of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// What is in it.
    pub root: Arc<Node>,
}

/// A node and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it starts.
    pub at: Position,
    /// What it is.
    pub kind: Kind,
    /// Nodes that it stands for, itself and what aliases put into it included.
    pub(super) size: usize,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Text.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Arc<Node>>),
    /// Keys and values in the order of the text; duplicates are found when the value is made.
    Mapping(Vec<(Arc<Node>, Arc<Node>)>),
}

/// A scalar as it is written, escapes and folding resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text.
    pub text: String,
    /// Whether it stands without quotes and is no block, so that its text decides on its type.
    pub plain: bool,
    /// An explicit type.
    pub tag: Option<Tag>,
    /// Whether the text comes from a substitution: then it is in no message.
    pub expanded: bool,
}

/// The explicit types that a scalar can have.
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
    /// `!!timestamp`: stays text.
    Timestamp,
    /// `!!binary`: base64 of text.
    Binary,
    /// `!!merge`.
    Merge,
}

impl Scalar {
    /// Text without quotes.
    pub(super) fn plain(text: String) -> Self {
        Self {
            text,
            plain: true,
            tag: None,
            expanded: false,
        }
    }

    /// Text in quotes.
    pub(super) fn quoted(text: String) -> Self {
        Self {
            plain: false,
            ..Self::plain(text)
        }
    }
}

impl Document {
    /// The same document with other texts in its scalars, keys included; `None` leaves one as it is.
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

    /// The value of a key of a mapping, by the text of the key.
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
