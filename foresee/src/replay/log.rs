//! Reads a record from disk, line by line.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use muster_rollout::{
    UnitId,
    record::{Case, LineError, Origin, Reader},
};
use thiserror::Error;

/// The most names of clusters in a message.
const NAMED: usize = 10;

/// A record that cannot be replayed.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("{}: {error}: name a file that can be read", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A line is not a valid record.
    #[error("{}:{line}: {error}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        error: LineError,
    },
    /// The file is empty.
    #[error(
        "{}: it has no decisions: name a file that muster controller --record-decisions wrote",
        path.display()
    )]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// A flag names a cluster without decisions.
    #[error("--cluster {name}: no decision of the record is about it; there are {known}")]
    NoCluster {
        /// The name that was given.
        name: String,
        /// Some names in the record.
        known: String,
    },
}

/// A record being read.
pub(crate) struct Log {
    path: PathBuf,
    file: BufReader<File>,
    reader: Reader,
    line: usize,
    torn: bool,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Result<Self, LogError> {
        let file = File::open(path).map_err(|error| unreadable(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufReader::new(file),
            reader: Reader::default(),
            line: 0,
            torn: false,
        })
    }

    /// The next line and its number; `None` at the end, or if the last line is truncated.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, &Case)>, LogError> {
        let mut text = Vec::new();
        let read = self.file.read_until(b'\n', &mut text);
        if read.map_err(|error| unreadable(&self.path, error))? == 0 {
            return Ok(None);
        }
        self.line += 1;
        match self.reader.read(&text) {
            Ok(case) => Ok(Some((self.line, case))),
            Err(LineError::Unreadable { .. }) if !text.ends_with(b"\n") => {
                self.torn = true;
                Ok(None)
            }
            Err(error) => Err(LogError::Line {
                path: self.path.clone(),
                line: self.line,
                error,
            }),
        }
    }

    /// The module of the last line, and the version of muster that decided.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.reader.origin()
    }

    /// The truncated line, if any.
    pub(crate) fn torn(&self) -> Option<usize> {
        self.torn.then_some(self.line)
    }
}

impl LogError {
    /// The error for a cluster without decisions; lists some that have them.
    pub fn no_cluster(name: &UnitId, known: &BTreeSet<UnitId>) -> Self {
        let mut names: Vec<&str> = known.iter().map(UnitId::as_str).take(NAMED).collect();
        if known.len() > NAMED {
            names.push("…");
        }
        Self::NoCluster {
            name: name.to_string(),
            known: if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            },
        }
    }
}

fn unreadable(path: &Path, error: io::Error) -> LogError {
    LogError::Unreadable {
        path: path.to_owned(),
        error,
    }
}
