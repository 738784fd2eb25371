//! What became of a change, in the words that the API has.

use serde::{Deserialize, Serialize};

/// Whose fault a failure is: it says what the rollout makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Class {
    /// The revision's: it is bad wherever it goes.
    Revision,
    /// This node's.
    Unit,
    /// The surroundings': it proves nothing about the revision.
    Infra,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Verdict {
    /// The new files stay: all checks held.
    Confirmed,
    /// The old files are back, and all checks are good with them: the new ones were bad.
    Failed,
    /// The old files are back, and exactly those checks fail that failed before the change.
    FailsBefore,
    /// The old files are back, and checks fail that did not before: nothing is proved.
    Inconclusive,
    /// The agent or the host went down during the change; the old files are back.
    Interrupted,
    /// The old files, or the services that read them, could not be brought back.
    RestoreFailed,
}

impl Verdict {
    /// Whose fault it is; `None` where nothing failed.
    pub fn class(self) -> Option<Class> {
        match self {
            Self::Confirmed => None,
            Self::Failed => Some(Class::Revision),
            Self::FailsBefore | Self::RestoreFailed => Some(Class::Unit),
            Self::Inconclusive | Self::Interrupted => Some(Class::Infra),
        }
    }

    /// The reason, as the API has it.
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
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// What failed, for people: at most [`MAX_MESSAGE`] bytes, no secrets, no control characters.
    pub message: String,
    /// The checks that failed last.
    pub failing: Vec<String>,
}

/// Bytes of a message.
pub const MAX_MESSAGE: usize = 512;
/// Checks that an outcome names; there may be more.
pub const MAX_FAILING: usize = 8;

impl Outcome {
    /// An outcome that fits a slot of the journal.
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

/// The text without control characters, quotes and backslashes (which grow when they are written), cut to so many bytes.
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

/// A row that is not changed: what it asks is refused before the first write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Refusal {
    /// Where in the content, such as `files[0].path`.
    pub field: String,
    /// Why.
    pub problem: RefusalProblem,
}

/// Why a row is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalProblem {
    /// It is wrong on every node.
    #[error("{0}")]
    Invalid(String),
    /// The configuration of this node does not allow or define it.
    #[error("{value:?} is not allowed: {why}")]
    NotAllowed {
        /// What was asked.
        value: String,
        /// Why not.
        why: String,
    },
    /// This node lacks it.
    #[error("there is no {0} on this node")]
    NotOnNode(String),
    /// The file that is there cannot be replaced and restored.
    #[error("{0}")]
    Target(String),
    /// The disk does not take what has to be written before the first change.
    #[error("{0}")]
    Disk(String),
}

impl Refusal {
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

    /// The same below a field.
    pub(crate) fn below(mut self, field: &str) -> Self {
        self.field = format!("{field}.{}", self.field);
        self
    }

    /// Whose fault it is.
    pub fn class(&self) -> Class {
        match self.problem {
            RefusalProblem::Invalid(_) => Class::Revision,
            _ => Class::Unit,
        }
    }

    /// The reason, as the API has it.
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
