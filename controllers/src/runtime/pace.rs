//! Gathering: after a write of a large object, what changes meanwhile is written together.
//!
//! The first change is written at once. While it goes on, the more a write costs, here and in the API server, the more changes share the
//! next one: at least half of the time is left to whatever makes them.

use std::time::Duration;

use tokio::time::{Instant, sleep};

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

    /// Waits as long as the write took. Whoever holds the turn of the object meanwhile gathers what changes.
    pub async fn gather(self) {
        sleep(self.0.elapsed().min(MOST)).await;
    }
}
