//! How long a lease lasts, and the times derived from it.

use std::{fmt, time::Duration};

use thiserror::Error;

/// The shortest lease: below it, a pause of a loaded machine would end a healthy process.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The longest lease. It is also the longest duration that a candidate accepts from a holder: a lease with an absurd
/// duration must not lock out all processes.
pub const LONGEST: Duration = Duration::from_mins(10);

/// How long a lease lasts after its last renewal: from [`SHORTEST`] to [`LONGEST`], in whole seconds, like the field of
/// the Lease object.
///
/// The derived times have the proportions of client-go's leader election (15 s, 10 s, 2 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseDuration(Duration);

/// An invalid duration of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LeaseDurationError {
    /// The duration is out of bounds.
    #[error("a lease of {} s is not valid: choose from {} s to {} s", .0.as_secs_f64(), SHORTEST.as_secs(), LONGEST.as_secs())]
    OutOfBounds(Duration),
    /// The duration has a fraction; the Lease object has whole seconds.
    #[error("a lease of {} s is not valid: choose whole seconds", .0.as_secs_f64())]
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
    /// How long a candidate waits after it observed the last renewal.
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// The value of `leaseDurationSeconds`.
    pub fn seconds(self) -> i32 {
        // At most LONGEST: the fallback is unreachable.
        i32::try_from(self.0.as_secs()).unwrap_or(i32::MAX)
    }

    /// The time between renewals.
    pub fn renew_every(self) -> Duration {
        self.0 / 3
    }

    /// How long the holder acts after the last renewal. The rest of the lease is for writes in flight.
    pub fn acts_for(self) -> Duration {
        self.0 * 2 / 3
    }

    /// The time between tries of a candidate, and after a failed renewal.
    pub fn retry_every(self) -> Duration {
        self.0 * 2 / 15
    }

    /// The deadline of one call about the lease: two fit between a failed renewal and the end of acting.
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
                .map(|made| made.duration().as_secs())
                .map_err(|error| error.to_string());
            assert_eq!(made, expect.map_err(str::to_owned), "{millis} ms");
        };
        check(1_000, Ok(1));
        check(600_000, Ok(600));
        check(
            999,
            Err("a lease of 0.999 s is not valid: choose from 1 s to 600 s"),
        );
        check(0, Err("a lease of 0 s is not valid: choose from 1 s to 600 s"));
        check(
            601_000,
            Err("a lease of 601 s is not valid: choose from 1 s to 600 s"),
        );
        check(1_500, Err("a lease of 1.5 s is not valid: choose whole seconds"));
    }

    #[test]
    fn client_gos_proportions() {
        let lease = LeaseDuration::default();
        let times = [
            lease.duration(),
            lease.acts_for(),
            lease.renew_every(),
            lease.retry_every(),
        ];
        assert_eq!(times, [15, 10, 5, 2].map(Duration::from_secs));
        assert!(lease.renew_every() + 2 * lease.call_deadline() <= lease.acts_for());
    }
}
