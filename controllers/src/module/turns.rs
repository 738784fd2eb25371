//! One writer for each assemblage: several modules change rows of the same one, and would otherwise overtake each other.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::runtime::Key;

/// Whose turn it is, by assemblage. Bounded by the assemblages that are being written now.
#[derive(Debug, Default)]
pub struct Turns(Mutex<BTreeMap<Key, Weak<Turn<()>>>>);

impl Turns {
    /// Waits until nobody else in this process writes the assemblage; others wait until the guard is dropped.
    pub async fn take(&self, key: &Key) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            turns.retain(|_, turn| turn.strong_count() > 0);
            let turn = turns.get(key).and_then(Weak::upgrade).unwrap_or_default();
            turns.insert(key.clone(), Arc::downgrade(&turn));
            turn
        };
        turn.lock_owned().await
    }
}
