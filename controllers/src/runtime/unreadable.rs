//! Objects of a watch that are there and cannot be read: what they say is unknown, which is not the same as that they say nothing.

use std::collections::BTreeSet;

use kube::{Resource, runtime::watcher};
use parking_lot::Mutex;

use super::{Key, watch::Watched};

/// The keys of objects that cannot be read, as a watch knows them.
#[derive(Debug, Default)]
pub struct Unreadable(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    keys: BTreeSet<Key>,
    /// Those of a list that is not complete yet.
    listed: BTreeSet<Key>,
}

impl Unreadable {
    /// Takes an event in.
    pub(super) fn note<K: Resource<DynamicType = ()>>(&self, event: &Watched<K>) {
        let mut known = self.0.lock();
        match event {
            watcher::Event::Init => known.listed.clear(),
            watcher::Event::InitApply(guard) if guard.0.is_err() => {
                known.listed.insert(Key::of(guard));
            }
            watcher::Event::InitApply(_) => {}
            watcher::Event::InitDone => known.keys = std::mem::take(&mut known.listed),
            watcher::Event::Apply(guard) if guard.0.is_err() => {
                known.keys.insert(Key::of(guard));
            }
            watcher::Event::Apply(guard) | watcher::Event::Delete(guard) => {
                known.keys.remove(&Key::of(guard));
            }
        }
    }

    /// Whether this one cannot be read.
    pub fn contains(&self, key: &Key) -> bool {
        self.0.lock().keys.contains(key)
    }

    /// One of them, if there are any.
    pub fn first(&self) -> Option<Key> {
        self.0.lock().keys.first().cloned()
    }
}
