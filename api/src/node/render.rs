//! Computes what one node gets from a NodeModule: the parts that select it, merged, with their variables replaced. Pure
//! functions; the controller and the node's agent compute the same result and compare digests.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

use super::content::{FileState, NodeChecks, NodeContent, NodeFile};
use crate::{
    digest,
    duration::Duration,
    selector::{Matcher, SelectorError},
    template::{self, Part},
};

/// Variable with the node's name.
pub const NODE_NAME: &str = "NODE_NAME";
/// Prefix of the variables with the node's labels; the label key follows.
pub const NODE_LABEL: &str = "NODE_LABEL_";
/// Prefix of the variables with the node's secrets; the secret's name follows.
pub const SECRET: &str = "SECRET_";

/// Variables and their values, by name.
pub type Values = BTreeMap<String, String>;

/// Why the content cannot be rendered for a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenderError {
    /// A file uses an unknown variable.
    #[error("{path} uses $({name}), which is neither a built-in variable nor a binding{}", .known.as_deref().map(|known| format!("; there are {known}")).unwrap_or_default())]
    UnknownVariable {
        /// Path of the file.
        path: String,
        /// Name of the unknown variable.
        name: String,
        /// Names of some of the known variables.
        known: Option<String>,
    },
    /// `$(` without a name and `)`.
    #[error("{path} has $( without a name and ): write $$( for the characters $(")]
    Unterminated {
        /// Path of the file.
        path: String,
    },
    /// A present file without content.
    #[error("{path} has state Present and no content")]
    NoContent {
        /// Path of the file.
        path: String,
    },
    /// The row refers to a part that the revision does not have.
    #[error("there is no part {0} in this revision")]
    NoPart(u32),
}

/// What one node gets, without secrets, which the node fills in itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rendered {
    /// The files, in the order of the parts.
    pub files: Vec<RenderedFile>,
    /// Names of what is reloaded, in order.
    pub reload: Vec<String>,
    /// Checks after the reload.
    pub checks: NodeChecks,
    /// Delay between the reload and the first check that counts.
    pub settle: Duration,
    /// How long the checks must pass without interruption.
    pub hold_for: Duration,
    /// How soon after the first write the change must be confirmed.
    pub confirm_within: Duration,
}

/// One file on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderedFile {
    /// Absolute path of the file.
    pub path: String,
    /// File mode, in octal digits.
    pub mode: String,
    /// Name of the owning user.
    pub owner: String,
    /// Name of the owning group.
    pub group: String,
    /// Content of the file; `None`: the file must not exist.
    pub content: Option<Vec<Piece>>,
}

/// A piece of a file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// The secret of this name, filled in on the node.
    Secret(String),
}

/// The selectors of a content's parts, parsed once for many nodes.
#[derive(Clone, Debug)]
pub struct Selectors(Vec<Option<Matcher>>);

impl Selectors {
    /// Parses the selectors of a content's parts.
    pub fn new(content: &NodeContent) -> Result<Self, SelectorError> {
        let of = |selector| Matcher::new(Some(selector));
        let parts = content.parts.iter();
        parts
            .map(|part| part.selector.as_ref().map(of).transpose())
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Indexes of the parts whose selector matches these node labels. A part without a selector matches all nodes.
    pub fn select(&self, labels: &BTreeMap<String, String>) -> BTreeSet<u32> {
        let matches = |selector: &Option<Matcher>| selector.as_ref().is_none_or(|one| one.matches(labels));
        (0..)
            .zip(&self.0)
            .filter(|(_, selector)| matches(selector))
            .map(|(number, _)| number)
            .collect()
    }
}

/// Indexes of the parts whose selector matches these node labels.
pub fn matching_parts(
    content: &NodeContent,
    labels: &BTreeMap<String, String>,
) -> Result<BTreeSet<u32>, SelectorError> {
    Ok(Selectors::new(content)?.select(labels))
}

/// The built-in variables of a node: its name, and each of its labels by key.
pub fn given(node: &str, labels: &BTreeMap<String, String>) -> Values {
    let labels = labels
        .iter()
        .map(|(key, value)| (format!("{NODE_LABEL}{key}"), value.clone()));
    std::iter::once((NODE_NAME.to_owned(), node.to_owned()))
        .chain(labels)
        .collect()
}

/// The files of these parts in order. If several parts contain the same path, the last one wins, at the position of the
/// first.
pub fn merged<'a>(content: &'a NodeContent, parts: &BTreeSet<u32>) -> Result<Vec<&'a NodeFile>, RenderError> {
    let mut files: Vec<&NodeFile> = Vec::new();
    for number in parts {
        let part = usize::try_from(*number)
            .ok()
            .and_then(|number| content.parts.get(number)); // a part that does not exist
        for file in &part.ok_or(RenderError::NoPart(*number))?.files {
            match files.iter_mut().find(|known| known.path == file.path) {
                Some(known) => *known = file,
                None => files.push(file),
            }
        }
    }
    Ok(files)
}

/// The variables that files of these parts use, without secrets: the row must have values for them.
pub fn used(content: &NodeContent, parts: &BTreeSet<u32>) -> Result<BTreeSet<String>, RenderError> {
    let mut names = BTreeSet::new();
    for file in merged(content, parts)? {
        for part in template_parts(file)? {
            if let Part::Name(name) = part
                && !name.starts_with(SECRET)
            {
                names.insert(name.to_owned());
            }
        }
    }
    Ok(names)
}

/// What a node gets from these parts with these values.
pub fn render(
    content: &NodeContent,
    parts: &BTreeSet<u32>,
    values: &Values,
) -> Result<Rendered, RenderError> {
    let files = merged(content, parts)?.into_iter();
    Ok(Rendered {
        files: files
            .map(|file| rendered(file, values))
            .collect::<Result<_, _>>()?,
        reload: content.reload.clone(),
        checks: content.checks.clone(),
        settle: content.settle,
        hold_for: content.hold_for,
        confirm_within: content.confirm_within,
    })
}

impl Rendered {
    /// The digest of what a node gets: `sha256:` and the hash of the complete result.
    pub fn digest(&self) -> String {
        let hash = digest::sha256_hex(&[&digest::canonical(&json!(self))]);
        format!("{}{hash}", digest::DIGEST_PREFIX)
    }
}

fn template_parts(file: &NodeFile) -> Result<Vec<Part<'_>>, RenderError> {
    match (&file.state, &file.content) {
        (FileState::Absent, _) => Ok(Vec::new()),
        (FileState::Present, None) => Err(RenderError::NoContent {
            path: file.path.clone(),
        }),
        (FileState::Present, Some(content)) => {
            template::template_parts(content).map_err(|_| RenderError::Unterminated {
                path: file.path.clone(),
            })
        }
    }
}

fn rendered(file: &NodeFile, values: &Values) -> Result<RenderedFile, RenderError> {
    let mut pieces = Vec::new();
    for part in template_parts(file)? {
        match part {
            Part::Text(text) => push(&mut pieces, text),
            Part::Name(name) => match (name.strip_prefix(SECRET), values.get(name)) {
                (Some(secret), _) => pieces.push(Piece::Secret(secret.to_owned())),
                (None, Some(value)) => push(&mut pieces, value),
                (None, None) => {
                    return Err(RenderError::UnknownVariable {
                        path: file.path.clone(),
                        name: name.to_owned(),
                        known: some(values),
                    });
                }
            },
        }
    }
    Ok(RenderedFile {
        path: file.path.clone(),
        mode: file.mode.clone(),
        owner: file.owner.clone(),
        group: file.group.clone(),
        content: (file.state == FileState::Present).then_some(pieces),
    })
}

/// Merges adjacent texts, so that the digest does not depend on how the content was split.
fn push(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Text(last)) => last.push_str(text),
        _ if text.is_empty() => {}
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

/// Up to five of the names, for an error message.
fn some(values: &Values) -> Option<String> {
    const SHOWN: usize = 5;
    let names: Vec<&str> = values.keys().take(SHOWN).map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
