//! Errors of a fleet file: what, where, and how to fix it.

use std::{io, path::PathBuf};

use muster_sync::yaml::{Node, Position, YamlError};
use thiserror::Error;

/// A fleet that cannot be simulated.
#[derive(Debug, Error)]
pub enum FleetError {
    /// The file cannot be read.
    #[error("{}: {error}: name a file that can be read", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// The file is not valid YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A field is invalid.
    #[error("{file}:{at}: {path}{what}; {hint}")]
    Wrong {
        /// Path of the file.
        file: String,
        /// Position in the file.
        at: Position,
        /// The field, followed by a colon and a space; empty for the whole file.
        path: String,
        /// What is wrong.
        what: String,
        /// How to fix it.
        hint: String,
    },
    /// A flag names a cluster that is not in the file.
    #[error("{flag} {name}: the file has no such cluster; it has {known}")]
    NoCluster {
        /// The flag.
        flag: &'static str,
        /// The name that was given.
        name: String,
        /// Some names in the file.
        known: String,
    },
    /// An argument that belongs to no flag.
    #[error("{argument}: one file is simulated; name clusters by --fail {argument}, or --slow {argument}=5m")]
    Stray {
        /// The argument.
        argument: String,
    },
    /// The simulation did not settle.
    #[error("the rollout does not settle after {events} events: make the fleet smaller, or report the file")]
    Restless {
        /// Number of simulated events.
        events: u64,
    },
    /// An invariant of the engine is violated.
    #[error("a bug in muster, please report the file and the seed: {0}")]
    Broken(#[from] muster_simulator::laws::Broken),
}

/// One segment of the path to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A key of a mapping.
    Name(String),
    /// An index of a list.
    Index(usize),
}

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<usize> for Key {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The position of a field; for one that is not set, of its closest parent.
pub(crate) fn position(root: &Node, path: &[Key]) -> Position {
    let mut node = root;
    for key in path {
        let next = match (key, &node.kind) {
            (Key::Name(name), _) => node.get(name),
            (Key::Index(index), muster_sync::yaml::Kind::Sequence(items)) => items.get(*index),
            (Key::Index(_), _) => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node.at
}

/// The path as text: `clusters[2].name`.
pub(crate) fn written(path: &[Key]) -> String {
    let mut text = String::new();
    for key in path {
        match key {
            Key::Name(name) if text.is_empty() => text.push_str(name),
            Key::Name(name) => {
                text.push('.');
                text.push_str(name);
            }
            Key::Index(index) => {
                text.push('[');
                text.push_str(&index.to_string());
                text.push(']');
            }
        }
    }
    text
}
