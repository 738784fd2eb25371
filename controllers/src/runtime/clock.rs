//! The one clock of the controllers: a wall time read once, carried on by tokio's clock, so that it follows paused time in tests.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where `now` comes from. Clones show the same time.
///
/// The wall time is read once, at the start; what follows is monotonic. A step of the host's clock therefore neither shortens nor
/// prolongs a deadline; times that are shown drift from the host's by as much as the step.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Timestamp,
    base: Instant,
}

impl Clock {
    /// Starts at the host's wall time.
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// Starts at the time given: for tests, whose outputs must not depend on the day.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            base: Instant::now(),
        }
    }

    /// The time now, in whole milliseconds.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::from_millis(self.elapsed_millis());
        // Saturates at the year 9999 only: the error is not reachable by waiting.
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// The time now in milliseconds since 1970.
    pub fn millis(&self) -> u64 {
        // Only a host whose clock stands before 1970 gives a negative number.
        u64::try_from(self.now().as_millisecond()).unwrap_or(0)
    }

    /// How long ago `then` was; zero if it is in the future.
    pub fn since(&self, then: Timestamp) -> Duration {
        // A negative span (a time of another host that is ahead) counts as no time at all.
        Duration::try_from(self.now().duration_since(then)).unwrap_or(Duration::ZERO)
    }

    fn elapsed_millis(&self) -> i64 {
        i64::try_from(self.base.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_paused_time() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(clock.now().to_string(), "2026-01-02T04:04:05Z");
        assert_eq!(clock.since(start), Duration::from_hours(1));
        assert_eq!(clock.since(Timestamp::MAX), Duration::ZERO);
    }
}
