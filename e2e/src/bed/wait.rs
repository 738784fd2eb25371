//! Waiting for a condition, on the bed's time.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Bed, Ground};

const MINUTE: Duration = Duration::from_mins(1);

impl Bed {
    /// Polls until a value is available; an `Err` describes the current state. Returns the elapsed time and the value.
    pub async fn wait_until<T>(
        &self,
        what: &str,
        deadline: Duration,
        poll: impl AsyncFn() -> Result<T, String>,
    ) -> (Duration, T) {
        let started = Instant::now();
        loop {
            let result = poll().await;
            let observed = match result {
                Ok(found) => return (started.elapsed(), found),
                Err(observed) => observed,
            };
            assert!(
                started.elapsed() < deadline,
                "not within {deadline:?}: {what}\nobserved: {observed}"
            );
            self.pass(self.step(started.elapsed())).await;
        }
    }

    /// Lets time pass. Only for claims about a period of time; everything else waits for a condition.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// The current time: of the simulated clock, or of this machine.
    pub fn now(&self) -> Timestamp {
        if self.is_virtual() {
            self.clock.now()
        } else {
            Timestamp::now()
        }
    }

    /// The time since the bed was created.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The poll interval, longer after a minute of waiting.
    fn step(&self, waited: Duration) -> Duration {
        match self.ground {
            Ground::Virtual if waited > MINUTE => Duration::from_secs(1),
            Ground::Virtual => Duration::from_millis(100),
            Ground::Wire | Ground::Real | Ground::Flux => Duration::from_millis(50),
        }
    }
}
