//! What to do after an error: one small vocabulary for all controllers.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use super::{Jitter, Key};

/// The first wait of [`Retry::Soon`]; each further consecutive failure doubles it.
pub const SOON_FIRST: Duration = Duration::from_millis(250);
/// The longest wait of [`Retry::Soon`]: also the longest `Retry-After` that is honoured.
pub const SOON_MAX: Duration = Duration::from_secs(30);

/// When an object whose reconcile failed is reconciled again. A change of the object always triggers it earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Only a change of an object can help.
    AwaitChange,
    /// Likely transient: from [`SOON_FIRST`], doubling to [`SOON_MAX`], with jitter.
    Soon,
    /// After the time given.
    At(Duration),
}

/// An error of a reconcile that knows its retry. Implement it by a `match` without a wildcard.
pub trait Retryable: std::error::Error + Send + Sync + 'static {
    /// How to retry after this error.
    fn retry(&self) -> Retry;
}

/// Consecutive failures by object; bounded by the number of objects, and reset by success.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<BTreeMap<Key, u32>>);

impl Failures {
    /// How long to wait after another failure of `key`. `None`: until a change.
    pub(crate) fn after_failure(&self, key: &Key, retry: Retry, jitter: &Jitter) -> Option<Duration> {
        match retry {
            Retry::AwaitChange => {
                self.reset(key);
                None
            }
            Retry::At(after) => {
                self.reset(key);
                Some(after)
            }
            Retry::Soon => {
                let mut failures = self.0.lock();
                let count = failures.entry(key.clone()).or_insert(0);
                let wait = backoff(*count);
                *count = count.saturating_add(1);
                // Seeded by object and count: failures of other objects do not affect it.
                Some(jitter.of(&format!("{key} {count}")).spread(wait, 0.2))
            }
        }
    }

    /// Resets `key` after a success or its deletion.
    pub(crate) fn reset(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

/// The wait after `failures` earlier consecutive failures.
pub fn backoff(failures: u32) -> Duration {
    // 250 ms · 2^7 = 32 s already exceeds the maximum.
    SOON_FIRST.saturating_mul(1 << failures.min(7)).min(SOON_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_wait_longer_and_success_starts_again() {
        let failures = Failures::default();
        let jitter = Jitter::seeded(1);
        let key = Key::new("ns", "a");
        let mut waits = Vec::new();
        for _ in 0..12 {
            waits.push(failures.after_failure(&key, Retry::Soon, &jitter).unwrap());
        }
        assert!(waits[0] <= Duration::from_millis(300), "{waits:?}");
        assert!(
            waits[11] >= Duration::from_secs(24) && waits[11] <= Duration::from_secs(36),
            "{waits:?}"
        );
        failures.reset(&key);
        assert!(failures.after_failure(&key, Retry::Soon, &jitter).unwrap() <= Duration::from_millis(300));
        assert_eq!(failures.after_failure(&key, Retry::AwaitChange, &jitter), None);
        let at = Duration::from_mins(1);
        assert_eq!(failures.after_failure(&key, Retry::At(at), &jitter), Some(at));
    }
}
