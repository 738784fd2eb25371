//! The agent's report about each row.

use crate::{
    content::Assignment,
    hold::Hold,
    outcome::{ChangeOutcome, Class, RowRefusal},
};

/// The state of a row on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The row.
    pub row: String,
    /// The digest of the assignment that the report is about.
    pub digest: String,
    /// The token of the assignment.
    pub token: u64,
    /// The attempt of the assignment.
    pub attempt: u64,
    /// The state of the row.
    pub state: State,
    /// Files of a confirmed row that differ from what was confirmed. They are reported and left alone.
    pub drift: Vec<String>,
    /// The error of a reload after a boot, for a confirmed row.
    pub note: Option<String>,
    /// The digest that was last confirmed for the row here: after a restore, that of the current files.
    pub confirmed: Option<String>,
    /// The same content is tried again automatically.
    pub retries: bool,
}

/// The state of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The change is about to start, which is reported before the first write.
    Changing,
    /// Its files are in place, and its checks succeeded.
    Confirmed,
    /// A try had another result, and the previous files are in place. The outcome is of this key, or of an earlier one
    /// with the same content.
    Ended(ChangeOutcome),
    /// It is refused; nothing was written.
    Refused(RowRefusal),
    /// It is not changed yet; nothing was written.
    Waiting(Waiting),
    /// It was deleted, and nothing of it remains.
    Gone,
}

/// Why a row is not changed yet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Waiting {
    /// `muster node-agent hold` on the node.
    #[error("held on the node until {}: {}", .0.until, .0.reason)]
    HeldLocally(Hold),
    /// This row is being changed, or could not be restored.
    #[error("waits for {0}")]
    BusyWith(String),
    /// This row has the path, a parent of it, or a path below it.
    #[error("{path} belongs to {row}")]
    PathConflict {
        /// The other row.
        row: String,
        /// The path of this row.
        path: String,
    },
    /// A newer version of the agent wrote the journal: this one writes nothing.
    #[error("a newer version of the agent wrote the journal: install it again")]
    JournalFromNewer,
    /// The start of the change could not be reported, so it did not start.
    #[error("the start of the change could not be reported")]
    NotAcknowledged,
    /// The agent's own directory cannot be written, and no change starts that could not be remembered.
    #[error("no change starts while the agent's memory cannot be written: {0}")]
    CannotRemember(String),
}

impl State {
    /// The reason in the API.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Changing => "Changing",
            Self::Confirmed => "Confirmed",
            Self::Ended(outcome) => outcome.verdict.reason(),
            Self::Refused(refusal) => refusal.reason(),
            Self::Gone => "Gone",
            Self::Waiting(waiting) => match waiting {
                Waiting::HeldLocally(_) => "HeldLocally",
                Waiting::BusyWith(_) => "BusyWith",
                Waiting::PathConflict { .. } => "PathConflict",
                Waiting::JournalFromNewer => "JournalFromNewer",
                Waiting::NotAcknowledged => "NotAcknowledged",
                Waiting::CannotRemember(_) => "CannotRemember",
            },
        }
    }

    /// The class of the failure to confirm the row; `None` if nothing failed.
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Ended(outcome) => outcome.verdict.class(),
            Self::Refused(refusal) => Some(refusal.class()),
            Self::Waiting(
                Waiting::PathConflict { .. } | Waiting::JournalFromNewer | Waiting::CannotRemember(_),
            ) => Some(Class::Unit),
            Self::Changing | Self::Confirmed | Self::Gone | Self::Waiting(_) => None,
        }
    }
}

impl Report {
    pub(crate) fn new(row: &Assignment, state: State) -> Self {
        Self {
            row: row.name.clone(),
            digest: row.digest.clone(),
            token: row.token,
            attempt: row.attempt,
            state,
            drift: Vec::new(),
            note: None,
            confirmed: None,
            retries: false,
        }
    }

    /// The obstacle, for display; `None` if there is none.
    pub fn message(&self) -> Option<String> {
        match &self.state {
            State::Changing | State::Confirmed | State::Gone => self.note.clone(),
            State::Ended(outcome) => Some(outcome.message.clone()),
            State::Refused(refusal) => Some(refusal.to_string()),
            State::Waiting(waiting) => Some(waiting.to_string()),
        }
    }

    /// Whether the assignment is complete, successful or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Confirmed | State::Ended(_) | State::Gone)
    }
}
