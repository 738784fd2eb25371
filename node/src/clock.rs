//! Time: the clock that no correction moves for deadlines, the wall clock for what people wrote.

use std::{thread, time::Duration};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The two clocks of a host.
pub trait Clock {
    /// Time since the host booted, sleep included (CLOCK_BOOTTIME): corrections of the wall clock do not move it.
    fn since_boot(&self) -> Duration;
    /// The wall clock. Deadlines never use it.
    fn wall(&self) -> Timestamp;
    /// Waits.
    fn sleep(&self, time: Duration);
}

/// The clocks of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn since_boot(&self) -> Duration {
        // It neither fails nor is negative on Linux; the start of the boot is what an absent clock would say.
        Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }
}
