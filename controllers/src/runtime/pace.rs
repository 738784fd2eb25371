//! Gathering: after a write of a large object, what changes meanwhile is written together.
//!
//! The first change is written at once. While it goes on, the more a write costs, the more changes share the next one. What it costs here
//! is measured; what it costs the API server and all that watch, which read the whole object, is counted by its rows.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How long changes are gathered at most: nobody waits longer for a report because others are written.
const MOST: Duration = Duration::from_millis(500);

/// What a write of one row of an object costs all that read it again, with a wide margin: a row takes about 20 us each time.
const OF_A_ROW: Duration = Duration::from_millis(4);

/// The start of a write.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    begun: Instant,
    least: Duration,
}

impl Pace {
    /// The write of an object of so many rows begins.
    pub fn begin(rows: usize) -> Self {
        Self {
            begun: Instant::now(),
            least: OF_A_ROW.saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX)),
        }
    }

    /// The write has ended: until when changes are gathered for the next one. Three times as long as this one took: at most a quarter of
    /// the time goes into writing one object.
    pub fn end(self) -> Instant {
        Instant::now() + self.begun.elapsed().saturating_mul(3).max(self.least).min(MOST)
    }

    /// The write has ended: waits until the next one may begin.
    pub async fn gather(self) {
        sleep_until(self.end()).await;
    }
}
