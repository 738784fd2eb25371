//! How long a lease lasts, and the times that follow from it.

use std::{fmt, time::Duration};

use thiserror::Error;

/// The shortest lease: below it, a pause of a loaded machine would end a healthy process.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The longest lease. It is also the longest that a candidate believes a holder to have: a lease with a nonsensical duration must not
/// lock everybody out.
pub const LONGEST: Duration = Duration::from_mins(10);

/// How long a lease lasts after it was renewed last: from [`SHORTEST`] to [`LONGEST`], in whole seconds, as the Lease object counts.
///
/// The times that follow have the proportions of client-go's leader election (15 s, 10 s, 2 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseDuration(Duration);

/// A duration that a lease cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LeaseDurationError {
    /// Out of bounds.
    #[error("a lease of {} s is not possible: choose from {} s to {} s", .0.as_secs_f64(), SHORTEST.as_secs(), LONGEST.as_secs())]
    OutOfBounds(Duration),
    /// The Lease object counts whole seconds.
    #[error("a lease of {} s is not possible: choose whole seconds", .0.as_secs_f64())]
    NotWhole(Duration),
}

impl TryFrom<Duration> for LeaseDuration {
    type Error = LeaseDurationError;

    fn try_from(duration: Duration) -> Result<Self, LeaseDurationError> {
        if !(SHORTEST..=LONGEST).contains(&duration) {
            return Err(LeaseDurationError::OutOfBounds(duration));
        }
        if duration.subsec_nanos() != 0 {
            return Err(LeaseDurationError::NotWhole(duration));
        }
        Ok(Self(duration))
    }
}

impl Default for LeaseDuration {
    fn default() -> Self {
        Self(Duration::from_secs(15))
    }
}

impl fmt::Display for LeaseDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs())
    }
}

impl LeaseDuration {
    /// So long a candidate waits, from when it saw the last renewal.
    pub const fn whole(self) -> Duration {
        self.0
    }

    /// As the Lease object has it.
    pub fn seconds(self) -> i32 {
        // At most LONGEST: the fallback is not reachable.
        i32::try_from(self.0.as_secs()).unwrap_or(i32::MAX)
    }

    /// Between renewals.
    pub fn renew_every(self) -> Duration {
        self.0 / 3
    }

    /// So long after the last renewal the holder acts. What is left until the end of the lease is for writes under way.
    pub fn acts_for(self) -> Duration {
        self.0 * 2 / 3
    }

    /// Between tries of a candidate, and after a failed renewal.
    pub fn retry_every(self) -> Duration {
        self.0 * 2 / 15
    }

    /// The deadline of one call about the lease: two fit between a renewal that fails and the end of acting.
    pub fn call_deadline(self) -> Duration {
        self.0 / 6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |millis, expect: Result<u64, &str>| {
            let made = LeaseDuration::try_from(Duration::from_millis(millis));
            let made = made
                .map(|made| made.whole().as_secs())
                .map_err(|error| error.to_string());
            assert_eq!(made, expect.map_err(str::to_owned), "{millis} ms");
        };
        check(1_000, Ok(1));
        check(600_000, Ok(600));
        check(
            999,
            Err("a lease of 0.999 s is not possible: choose from 1 s to 600 s"),
        );
        check(0, Err("a lease of 0 s is not possible: choose from 1 s to 600 s"));
        check(
            601_000,
            Err("a lease of 601 s is not possible: choose from 1 s to 600 s"),
        );
        check(
            1_500,
            Err("a lease of 1.5 s is not possible: choose whole seconds"),
        );
    }

    #[test]
    fn client_gos_proportions() {
        let lease = LeaseDuration::default();
        let times = [
            lease.whole(),
            lease.acts_for(),
            lease.renew_every(),
            lease.retry_every(),
        ];
        assert_eq!(times, [15, 10, 5, 2].map(Duration::from_secs));
        assert!(lease.renew_every() + 2 * lease.call_deadline() <= lease.acts_for());
    }
}
