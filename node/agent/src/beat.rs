//! Detects whether the agent's thread is alive: each reading of its clock is a heartbeat, and every wait reads the
//! clock.

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use muster_node::Clock;

/// The longest sleep between two heartbeats.
const STEP: Duration = Duration::from_secs(5);

/// The time of the last heartbeat.
#[derive(Clone, Debug)]
pub struct Beat {
    start: Instant,
    last: Arc<AtomicU64>,
}

impl Default for Beat {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            last: Arc::default(),
        }
    }
}

impl Beat {
    /// The time since the last heartbeat.
    pub fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }

    fn record_heartbeat(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }
}

/// A clock whose readings are heartbeats.
pub struct BeatingClock {
    inner: Rc<dyn Clock>,
    beat: Beat,
}

impl BeatingClock {
    /// The wrapped clock.
    pub fn new(inner: Rc<dyn Clock>, beat: Beat) -> Self {
        Self { inner, beat }
    }
}

impl Clock for BeatingClock {
    fn since_boot(&self) -> Duration {
        self.beat.record_heartbeat();
        self.inner.since_boot()
    }

    fn wall(&self) -> Timestamp {
        self.inner.wall()
    }

    fn sleep(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.inner.sleep(step);
            self.beat.record_heartbeat();
            left -= step;
        }
    }
}
