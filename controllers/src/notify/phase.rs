//! What a rollout stands at, in one word, and what commit statuses call it.

use serde::{Deserialize, Serialize};

/// What a rollout stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// It is on its way.
    Rolling,
    /// Somebody paused it.
    Paused,
    /// A stage waits for a person.
    WaitingApproval,
    /// Confirmed on every eligible selected cluster.
    Good,
    /// Condemned: it failed on more clusters than allowed.
    Bad,
    /// Ended by a person.
    Aborted,
    /// Another revision took its place.
    Superseded,
}

/// What hosts of git know of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is known yet.
    Pending,
    /// All is well.
    Success,
    /// It failed.
    Failure,
    /// It came to no end.
    Ended,
}

impl Phase {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Rolling,
        Self::Paused,
        Self::WaitingApproval,
        Self::Good,
        Self::Bad,
        Self::Aborted,
        Self::Superseded,
    ];

    /// Whether nothing follows but another rollout.
    pub const fn is_over(self) -> bool {
        matches!(self.state(), State::Success | State::Failure | State::Ended)
    }

    /// What a commit status says of it.
    pub const fn state(self) -> State {
        match self {
            Self::Rolling | Self::Paused | Self::WaitingApproval => State::Pending,
            Self::Good => State::Success,
            Self::Bad => State::Failure,
            Self::Aborted | Self::Superseded => State::Ended,
        }
    }

    /// The word, as configuration and messages have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rolling => "Rolling",
            Self::Paused => "Paused",
            Self::WaitingApproval => "WaitingApproval",
            Self::Good => "Good",
            Self::Bad => "Bad",
            Self::Aborted => "Aborted",
            Self::Superseded => "Superseded",
        }
    }
}
