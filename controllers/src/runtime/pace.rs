//! Gathering: after a write of a large object, what changes meanwhile is written together.
//!
//! The first change is written at once. While it goes on, the more a write costs, the more changes share the next one. What it costs here
//! is measured; what it costs the API server and all that watch, which read the whole object, is counted by its rows.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How long changes are gathered at most: no report waits longer because others are written.
const MOST: Duration = Duration::from_millis(500);

/// Objects of so few rows are small: only what their writes take here is counted.
const FEW: usize = 10;

/// For how long changes are gathered for each row beyond [`FEW`]: so that 120 modules that all change at once cost a cluster hardly more
/// for each of them than ten do (`docs/benchmarks.md`).
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
            least: OF_A_ROW.saturating_mul(u32::try_from(rows.saturating_sub(FEW)).unwrap_or(u32::MAX)),
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

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_are_gathered_by_rows_or_by_what_the_write_took() {
        for (rows, took, expect) in [
            (0, 0, 0),
            (10, 0, 0),
            (10, 30, 90),
            (11, 0, 4),
            (120, 30, 440),
            (300, 0, 500),
            (1, 400, 500),
        ] {
            let pace = Pace::begin(rows);
            advance(Duration::from_millis(took)).await;
            let gathered = pace.end() - Instant::now();
            assert_eq!(gathered.as_millis(), expect, "{rows} rows, {took} ms");
        }
    }
}
