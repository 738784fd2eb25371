//! What is wrong with a fleet file, where, and how to mend it.

use std::{io, path::PathBuf};

use muster_sync::yaml::{Node, Position, YamlError};
use thiserror::Error;

/// A fleet that cannot be simulated.
#[derive(Debug, Error)]
pub enum FleetError {
    /// The file cannot be read.
    #[error("{}: {error}: name a file that can be read", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// Something in it is not what it has to be.
    #[error("{file}:{at}: {path}{what}; {mend}")]
    Wrong {
        /// The file.
        file: String,
        /// Where.
        at: Position,
        /// The field, with a colon and a blank; empty for the whole file.
        path: String,
        /// What is wrong.
        what: String,
        /// What to do.
        mend: String,
    },
    /// A flag names a cluster that is not in the file.
    #[error("{flag} {name}: the file has no such cluster; it has {known}")]
    NoCluster {
        /// The flag.
        flag: &'static str,
        /// What it names.
        name: String,
        /// Some that there are.
        known: String,
    },
    /// A word that belongs to no flag.
    #[error("{said}: one file is simulated; name clusters by --fail {said}, or --slow {said}=5m")]
    Stray {
        /// The word.
        said: String,
    },
    /// It did not come to an end.
    #[error(
        "the rollout does not come to rest after {events} events: make the fleet smaller, or report the file"
    )]
    Restless {
        /// So many were simulated.
        events: u64,
    },
    /// A law of the engine does not hold.
    #[error("a defect of muster, please report the file and the seed: {0}")]
    Broken(#[from] muster_simulator::laws::Broken),
}

/// One step of the way to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Of a mapping.
    Name(String),
    /// Of a list.
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

/// Where a field stands; of one that is not written, what it would stand in.
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

/// As people write it: `clusters[2].name`.
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
