//! Keys to process, merged until they are taken: bounded by the number of objects, not of events.

use std::{collections::BTreeSet, sync::Arc};

use futures::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::runtime::Key;

/// A set of keys that wakes its reader. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct Pending(Arc<State>);

#[derive(Debug, Default)]
struct State {
    keys: Mutex<BTreeSet<Key>>,
    added: Notify,
}

impl Pending {
    /// Adds a key.
    pub fn add(&self, key: Key) {
        self.0.keys.lock().insert(key);
        self.0.added.notify_one();
    }

    /// Takes the keys out one after the other. For a single reader.
    pub fn keys(&self) -> impl Stream<Item = Key> + Send + 'static + use<> {
        stream::unfold(Arc::clone(&self.0), |state| async move {
            loop {
                let first = state.keys.lock().pop_first();
                if let Some(key) = first {
                    return Some((key, state));
                }
                state.added.notified().await;
            }
        })
    }
}
