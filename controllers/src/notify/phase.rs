//! The phase of a rollout, and its commit status state.

use serde::{Deserialize, Serialize};

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// It is in progress.
    Rolling,
    /// It is paused by a user.
    Paused,
    /// A stage waits for an approval.
    WaitingApproval,
    /// Confirmed on every eligible selected cluster.
    Good,
    /// Condemned: it failed on more clusters than allowed.
    Bad,
    /// Aborted by a user.
    Aborted,
    /// Replaced by another revision.
    Superseded,
}

/// The state of a commit status at a git host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The result is not known yet.
    Pending,
    /// The rollout succeeded.
    Success,
    /// The rollout failed.
    Failure,
    /// The rollout ended without a result.
    Ended,
}

impl Phase {
    /// All phases.
    pub const ALL: &[Self] = &[
        Self::Rolling,
        Self::Paused,
        Self::WaitingApproval,
        Self::Good,
        Self::Bad,
        Self::Aborted,
        Self::Superseded,
    ];

    /// Whether the phase is final: only another rollout can follow.
    pub const fn is_over(self) -> bool {
        matches!(self.state(), State::Success | State::Failure | State::Ended)
    }

    /// The commit status state of the phase.
    pub const fn state(self) -> State {
        match self {
            Self::Rolling | Self::Paused | Self::WaitingApproval => State::Pending,
            Self::Good => State::Success,
            Self::Bad => State::Failure,
            Self::Aborted | Self::Superseded => State::Ended,
        }
    }

    /// The name in configuration and messages.
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
