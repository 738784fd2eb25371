//! The last attempts, in memory: after a restart every repository is due, which costs one request each.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kube::runtime::reflector::Store;
use muster_api::flux::GitRepository;
use parking_lot::Mutex;

use crate::runtime::Key;

/// The wait after the first failure; each further one in a row doubles it.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);

/// The longest wait after a transient failure: a host that recovers is noticed within a minute.
const BACKOFF_MAX: Duration = Duration::from_mins(1);

/// When there are this many more entries than objects, the entries of deleted objects are dropped.
const SLACK: usize = 64;

/// The last attempt at a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The uid of the object.
    pub uid: String,
    /// The generation of the spec.
    pub generation: i64,
    /// The reconcile request that it handled.
    pub requested: Option<String>,
    /// Consecutive failures, including this one.
    pub failures: u32,
    /// When the next attempt is due.
    pub due: Timestamp,
}

/// The last attempts by repository.
pub(super) struct Attempts {
    store: Store<GitRepository>,
    last: Mutex<BTreeMap<Key, Attempt>>,
}

impl Attempts {
    pub(super) fn new(store: Store<GitRepository>) -> Self {
        Self {
            store,
            last: Mutex::default(),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Attempt> {
        self.last.lock().get(key).cloned()
    }

    pub(super) fn put(&self, key: Key, attempt: Attempt) {
        let mut last = self.last.lock();
        last.insert(key, attempt);
        if last.len() > self.store.len() + SLACK {
            last.retain(|key, _| self.store.get(&key.object_ref()).is_some());
        }
    }

    pub(super) fn remove(&self, key: &Key) {
        self.last.lock().remove(key);
    }
}

/// The wait after this number of consecutive failures.
pub(super) fn fetch_backoff(failures: u32) -> Duration {
    BACKOFF_FIRST
        .saturating_mul(1 << failures.saturating_sub(1).min(6))
        .min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_wait_up_to_a_minute() {
        let waits: Vec<u64> = [1, 2, 3, 6, 7, 8, 1_000]
            .map(|failures| fetch_backoff(failures).as_secs())
            .to_vec();
        assert_eq!(waits, [1, 2, 4, 32, 60, 60, 60]);
    }
}
