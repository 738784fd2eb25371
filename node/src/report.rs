//! What the agent says of each row.

use crate::{
    content::Assignment,
    hold::Hold,
    outcome::{Class, Outcome, Refusal},
};

/// A row as it stands on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The row.
    pub row: String,
    /// The digest of the assignment that the state is about.
    pub digest: String,
    /// Its token.
    pub token: u64,
    /// Its attempt.
    pub attempt: u64,
    /// How it stands.
    pub state: State,
    /// Files of a confirmed row that are not as they were confirmed. They are reported and left alone.
    pub drift: Vec<String>,
    /// What failed when the services read the files of a confirmed row again after a boot.
    pub note: Option<String>,
    /// The digest that the row last confirmed here: after a restore, that of the files that stand.
    pub confirmed: Option<String>,
    /// The same is tried again by itself.
    pub retries: bool,
}

/// How a row stands.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It is about to be changed: this is reported before the first write.
    Changing,
    /// Its files stand, and its checks held with them.
    Confirmed,
    /// A try ended otherwise, and the files of before stand. The outcome is of this key, or of the same content before.
    Ended(Outcome),
    /// It is refused; nothing was written.
    Refused(Refusal),
    /// It is not changed yet; nothing was written.
    Waiting(Waiting),
    /// It was deleted, and nothing of it is left to do.
    Gone,
}

/// Why a row is not changed yet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Waiting {
    /// `muster node-agent hold` on the node.
    #[error("held on the node until {}: {}", .0.until, .0.reason)]
    HeldLocally(Hold),
    /// This row is changed, or could not be brought back.
    #[error("waits for {0}")]
    BusyWith(String),
    /// This row has the path, or a parent of it, or one below.
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
    /// The agent's own folder cannot be written: nothing is begun that could not be remembered.
    #[error("nothing is begun that could not be remembered: {0}")]
    CannotRemember(String),
}

impl State {
    /// The reason, as the API has it.
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

    /// Whose fault it is that the row is not confirmed; `None` where nothing failed.
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

    /// What stands in the way, for people; `None` where nothing does.
    pub fn message(&self) -> Option<String> {
        match &self.state {
            State::Changing | State::Confirmed | State::Gone => self.note.clone(),
            State::Ended(outcome) => Some(outcome.message.clone()),
            State::Refused(refusal) => Some(refusal.to_string()),
            State::Waiting(waiting) => Some(waiting.to_string()),
        }
    }

    /// Whether the assignment was carried out to its end, good or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Confirmed | State::Ended(_) | State::Gone)
    }
}
