//! The clock of the program: a wall time read once and advanced by tokio's clock, so that it follows paused time in
//! tests.

use std::{fmt, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The source of the current time. Clones share it.
///
/// The wall time is read once, at the start; from there on the clock is monotonic. A step of the host's clock therefore
/// neither shortens nor extends a deadline; displayed times are off by that step.
#[derive(Clone)]
pub struct Clock(Now);

#[derive(Clone)]
enum Now {
    /// A wall time, and the instant at which it was read.
    Since(Timestamp, Instant),
    /// Returned by a function.
    Given(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl Clock {
    /// Starts at the host's wall time.
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// Starts at the given time: for tests, whose output must not depend on the day.
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Now::Since(start, Instant::now()))
    }

    /// Returns what `now` returns: for tests that set the time.
    pub fn given(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Now::Given(Arc::new(now)))
    }

    /// The current time, truncated to milliseconds unless it comes from [`Clock::given`].
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Now::Since(start, base) => {
                let elapsed = i64::try_from(base.elapsed().as_millis()).unwrap_or(i64::MAX);
                // Overflows only in the year 9999.
                let now = start.checked_add(SignedDuration::from_millis(elapsed));
                now.unwrap_or(Timestamp::MAX)
            }
            Now::Given(now) => now(),
        }
    }

    /// The current time in milliseconds since 1970.
    pub fn millis(&self) -> u64 {
        // Negative only on a host whose clock is before 1970.
        u64::try_from(self.now().as_millisecond()).unwrap_or(0)
    }

    /// How long ago `then` was; zero if it is in the future.
    pub fn since(&self, then: Timestamp) -> Duration {
        // A negative span (`then` is from a host whose clock is ahead) counts as zero.
        Duration::try_from(self.now().duration_since(then)).unwrap_or(Duration::ZERO)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
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
