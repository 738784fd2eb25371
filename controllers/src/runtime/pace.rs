//! Gathering: after a write of a large object, what changes meanwhile is written together.
//!
//! The first change is written at once. While it goes on, the more a write costs, here and in the API server, the more changes share the
//! next one: at most a quarter of the time goes into writing one object.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How long changes are gathered at most: nobody waits longer for a report because others are written.
const MOST: Duration = Duration::from_millis(500);

/// The start of a write.
#[derive(Clone, Copy, Debug)]
pub struct Pace(Instant);

impl Pace {
    /// The write begins.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// The write has ended: until when changes are gathered for the next one, three times as long as this one took.
    pub fn end(self) -> Instant {
        Instant::now() + self.0.elapsed().saturating_mul(3).min(MOST)
    }

    /// The write has ended: waits until the next one may begin.
    pub async fn gather(self) {
        sleep_until(self.end()).await;
    }
}
