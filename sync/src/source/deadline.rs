//! The time limit of an operation.

use std::time::Duration;

use super::SourceError;

/// The instant at which a whole operation must have ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: std::time::Instant,
    /// The time limit, for messages.
    pub total: Duration,
}

impl Deadline {
    /// A deadline of `total` from now.
    pub(super) fn after(total: Duration) -> Self {
        let now = std::time::Instant::now();
        Self {
            at: now + total,
            total,
        }
    }

    /// The remaining time; zero when the deadline has passed.
    pub(super) fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(std::time::Instant::now())
    }

    /// Whether the deadline has passed.
    pub(super) fn passed(&self) -> bool {
        self.remaining().is_zero()
    }

    /// An error if the deadline has passed; `phase` is the current activity.
    pub(super) fn check(&self, url: &str, phase: &'static str) -> Result<(), SourceError> {
        if self.passed() {
            Err(self.timeout(url, phase))
        } else {
            Ok(())
        }
    }

    /// The error for an operation that exceeded its deadline.
    pub(super) fn timeout(&self, url: &str, phase: &'static str) -> SourceError {
        SourceError::Timeout {
            url: url.to_owned(),
            after: self.total,
            phase,
        }
    }
}
