//! Time: a clock without corrections for deadlines, and the wall clock for times set by users.

use std::{thread, time::Duration};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The two clocks of a host.
pub trait Clock {
    /// Time since the host booted, including sleep (CLOCK_BOOTTIME): not affected by corrections of the wall clock.
    fn since_boot(&self) -> Duration;
    /// The wall clock, never used for deadlines.
    fn wall(&self) -> Timestamp;
    /// Waits for this time.
    fn sleep(&self, time: Duration);
}

/// The clocks of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn since_boot(&self) -> Duration {
        // It cannot fail or be negative on Linux; the fallback is the time of the boot.
        Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }
}
