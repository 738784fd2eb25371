//! How long an operation may take.

use std::time::Duration;

use super::SourceError;

/// The instant at which a whole operation must have ended, whatever happens within it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: std::time::Instant,
    /// The time that the operation was given, for messages.
    pub total: Duration,
}

impl Deadline {
    /// `total` from now.
    pub(super) fn after(total: Duration) -> Self {
        let now = std::time::Instant::now();
        Self {
            at: now + total,
            total,
        }
    }

    /// What is left; zero when it has passed.
    pub(super) fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(std::time::Instant::now())
    }

    /// Whether it has passed.
    pub(super) fn passed(&self) -> bool {
        self.remaining().is_zero()
    }

    /// An error once it has passed; `phase` is what was being done.
    pub(super) fn check(&self, url: &str, phase: &'static str) -> Result<(), SourceError> {
        if self.passed() {
            Err(self.timeout(url, phase))
        } else {
            Ok(())
        }
    }

    /// The error for an operation that did not end in time.
    pub(super) fn timeout(&self, url: &str, phase: &'static str) -> SourceError {
        SourceError::Timeout {
            url: url.to_owned(),
            after: self.total,
            phase,
        }
    }
}
