//! The server's time: wall-clock instants that follow tokio's clock, and stop when it is paused.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The only time source of a server: an epoch plus the time elapsed on tokio's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Timestamp,
    start: Instant,
}

impl Clock {
    /// A clock that starts at `epoch`.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self {
            epoch,
            start: Instant::now(),
        }
    }

    /// A clock that starts at the system time.
    pub fn of_this_machine() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.epoch
            .saturating_add(self.start.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    /// Time since the server started.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The current time as object metadata prints it: RFC 3339, whole seconds, UTC.
    pub fn stamp(&self) -> String {
        seconds(self.now())
    }

    /// The current time with microseconds (`metav1.MicroTime`).
    pub fn micro_stamp(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    }
}

/// RFC 3339 with whole seconds, as `metav1.Time` prints it.
pub fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
