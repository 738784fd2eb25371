//! The one place of this crate that knows the time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::SourceError;

/// Tells the time of day. The process gives its own clock in, so that everything in it lives on one time line.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that asks `now`.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The clock of the operating system.
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// A clock that starts at `start` and follows the runtime's time, paused or not.
    pub fn from_runtime(start: Timestamp) -> Self {
        let origin = Instant::now();
        Self::new(move || start.saturating_add(origin.elapsed()).unwrap_or(Timestamp::MAX))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

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
