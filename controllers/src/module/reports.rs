//! When the status of each module was last written for nothing but what it says of clusters.

use std::collections::HashMap;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::runtime::Key;

/// Kept by the process that leads: another one begins with none.
#[derive(Default)]
pub(crate) struct Reports(Mutex<HashMap<Key, Timestamp>>);

impl Reports {
    /// When it was last.
    pub(crate) fn last(&self, key: &Key) -> Option<Timestamp> {
        self.0.lock().get(key).copied()
    }

    /// It was written.
    pub(crate) fn note(&self, key: Key, at: Timestamp) {
        self.0.lock().insert(key, at);
    }

    /// A module is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
