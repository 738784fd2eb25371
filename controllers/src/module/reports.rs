//! When the status of each module was last written only because of what it says about clusters.

use std::collections::HashMap;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::runtime::Key;

/// Kept in memory by the leader: a new leader starts without any.
#[derive(Default)]
pub(crate) struct Reports(Mutex<HashMap<Key, Timestamp>>);

impl Reports {
    /// The time of the last such write.
    pub(crate) fn last(&self, key: &Key) -> Option<Timestamp> {
        self.0.lock().get(key).copied()
    }

    /// Records such a write.
    pub(crate) fn record(&self, key: Key, at: Timestamp) {
        self.0.lock().insert(key, at);
    }

    /// Drops the entry of a deleted module.
    pub(crate) fn drop_module(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
