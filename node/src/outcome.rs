//! The outcome of a change, with the names used in the API.

use serde::{Deserialize, Serialize};

/// The class of a failure, which determines how the rollout handles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Class {
    /// Caused by the revision: it fails on any node.
    Revision,
    /// Caused by this node.
    Unit,
    /// Caused by the environment: it proves nothing about the revision.
    Infra,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Verdict {
    /// The new files stay: all checks succeeded.
    Confirmed,
    /// The old files are restored, and all checks succeed with them: the new ones were bad.
    Failed,
    /// The old files are restored, and exactly those checks fail that failed before the change.
    FailsBefore,
    /// The old files are restored, and checks fail that did not before: inconclusive.
    Inconclusive,
    /// The agent or the host went down during the change; the old files are restored.
    Interrupted,
    /// The old files, or the services that read them, could not be restored.
    RestoreFailed,
}

impl Verdict {
    /// The class of the failure; `None` if nothing failed.
    pub fn class(self) -> Option<Class> {
        match self {
            Self::Confirmed => None,
            Self::Failed => Some(Class::Revision),
            Self::FailsBefore | Self::RestoreFailed => Some(Class::Unit),
            Self::Inconclusive | Self::Interrupted => Some(Class::Infra),
        }
    }

    /// The reason in the API.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Confirmed => "Confirmed",
            Self::Failed => "Failed",
            Self::FailsBefore => "FailsBefore",
            Self::Inconclusive => "Inconclusive",
            Self::Interrupted => "Interrupted",
            Self::RestoreFailed => "RestoreFailed",
        }
    }
}

/// A verdict with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ChangeOutcome {
    /// How it ended.
    pub verdict: Verdict,
    /// The error, for display: at most [`MAX_MESSAGE`] bytes, no secrets, no control characters.
    pub message: String,
    /// The checks that failed last.
    pub failing: Vec<String>,
}

/// Maximum length of a message, in bytes.
pub const MAX_MESSAGE: usize = 512;
/// Maximum number of checks that an outcome names; there may be more.
pub const MAX_FAILING: usize = 8;

impl ChangeOutcome {
    /// An outcome, cut to fit a slot of the journal.
    pub(crate) fn new(verdict: Verdict, message: &str, failing: &[String]) -> Self {
        Self {
            verdict,
            message: printable(message, MAX_MESSAGE),
            failing: failing
                .iter()
                .take(MAX_FAILING)
                .map(|name| printable(name, 96))
                .collect(),
        }
    }
}

/// The text without control characters, and without quotes and backslashes (which grow when escaped), cut to a maximum
/// length in bytes.
fn printable(text: &str, most: usize) -> String {
    let plain = text.chars().map(|char| match char {
        '"' | '\\' => '\'',
        char if char.is_control() => ' ',
        char => char,
    });
    let mut short = String::new();
    for char in plain {
        if short.len() + char.len_utf8() > most {
            break;
        }
        short.push(char);
    }
    short
}

/// A row that is refused before the first write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RowRefusal {
    /// The path of the field, such as `files[0].path`.
    pub field: String,
    /// The problem.
    pub problem: RefusalProblem,
}

/// Why a row is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalProblem {
    /// The content is invalid on every node.
    #[error("{0}")]
    Invalid(String),
    /// The configuration of this node does not allow or define it.
    #[error("{value:?} is not allowed: {why}")]
    NotAllowed {
        /// The requested value.
        value: String,
        /// Why it is not allowed.
        why: String,
    },
    /// It does not exist on this node.
    #[error("there is no {0} on this node")]
    NotOnNode(String),
    /// The existing file cannot be replaced and restored.
    #[error("{0}")]
    Target(String),
    /// The preparations of the change cannot be written to the disk.
    #[error("{0}")]
    Disk(String),
}

impl RowRefusal {
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: RefusalProblem::Invalid(problem.into()),
        }
    }

    pub(crate) fn not_allowed(field: impl Into<String>, value: &str, why: &str) -> Self {
        Self {
            field: field.into(),
            problem: RefusalProblem::NotAllowed {
                value: value.to_owned(),
                why: why.to_owned(),
            },
        }
    }

    /// The same refusal with its path below a field.
    pub(crate) fn below(mut self, field: &str) -> Self {
        self.field = format!("{field}.{}", self.field);
        self
    }

    /// The class of the failure.
    pub fn class(&self) -> Class {
        match self.problem {
            RefusalProblem::Invalid(_) => Class::Revision,
            _ => Class::Unit,
        }
    }

    /// The reason in the API.
    pub fn reason(&self) -> &'static str {
        match self.problem {
            RefusalProblem::Invalid(_) => "Invalid",
            RefusalProblem::NotAllowed { .. } => "NotAllowed",
            RefusalProblem::NotOnNode(_) => "NotOnNode",
            RefusalProblem::Target(_) => "TargetRefused",
            RefusalProblem::Disk(_) => "DiskFailed",
        }
    }
}
