//! Waiting for a condition, on the bed's time.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Bed, Ground};

const MINUTE: Duration = Duration::from_mins(1);

impl Bed {
    /// Looks until something is there; an `Err` says what is seen instead. How long it took, and what was found.
    pub async fn wait_until<T>(
        &self,
        what: &str,
        deadline: Duration,
        look: impl AsyncFn() -> Result<T, String>,
    ) -> (Duration, T) {
        let started = Instant::now();
        loop {
            let seen = look().await;
            let seen = match seen {
                Ok(found) => return (started.elapsed(), found),
                Err(seen) => seen,
            };
            assert!(
                started.elapsed() < deadline,
                "not within {deadline:?}: {what}\nseen: {seen}"
            );
            self.pass(self.step(started.elapsed())).await;
        }
    }

    /// Lets time pass. Only for what is said of a time span; everything else waits for a condition.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// The time: of the clock that is played, or of this machine.
    pub fn now(&self) -> Timestamp {
        if self.is_virtual() {
            self.clock.now()
        } else {
            Timestamp::now()
        }
    }

    /// The bed's time since it was made.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long until the next look; who waits for minutes is not in a hurry.
    fn step(&self, waited: Duration) -> Duration {
        match self.ground {
            Ground::Virtual if waited > MINUTE => Duration::from_secs(1),
            Ground::Virtual => Duration::from_millis(100),
            Ground::Wire | Ground::Real | Ground::Flux => Duration::from_millis(50),
        }
    }
}
