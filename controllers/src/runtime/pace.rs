//! Batching: after a write of a large object, changes that arrive meanwhile are written together.
//!
//! The first change is written at once. After that, the more a write costs, the more changes share the next one. The
//! cost in this process is measured; the cost for the API server and all watchers, which read the whole object, is
//! estimated by its rows.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The longest time for which changes are collected, so that many writes do not delay a report further.
const MOST: Duration = Duration::from_millis(500);

/// Objects with up to this number of rows are small: only the measured duration of their writes counts.
const FEW: usize = 10;

/// The time to collect changes for each row beyond [`FEW`]: so that 120 modules that all change at once cost a cluster
/// hardly more for each of them than ten do (`docs/benchmarks.md`).
const OF_A_ROW: Duration = Duration::from_millis(6);

/// The start of a write.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    begun: Instant,
    least: Duration,
}

impl Pace {
    /// Starts a write of an object with this number of rows.
    pub fn begin(rows: usize) -> Self {
        Self {
            begun: Instant::now(),
            least: OF_A_ROW.saturating_mul(u32::try_from(rows.saturating_sub(FEW)).unwrap_or(u32::MAX)),
        }
    }

    /// Ends the write: the time until which changes are collected for the next one. Three times as long as this write
    /// took, so that at most a quarter of the time is spent on writing one object.
    pub fn end(self) -> Instant {
        Instant::now() + self.begun.elapsed().saturating_mul(3).max(self.least).min(MOST)
    }

    /// Ends the write, and waits until the next one may start.
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
            (11, 0, 6),
            (40, 30, 180),
            (120, 30, 500),
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
