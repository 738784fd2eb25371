//! Which assemblage needs which objects, by name: so that a change of an object triggers the assemblages that use it,
//! whether or not the object refers to them, and a source that is no longer needed is detected.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use crate::runtime::Key;

/// The names of the objects that one assemblage needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Names of sources.
    pub sources: BTreeSet<String>,
    /// Names of Kustomizations.
    pub kustomizations: BTreeSet<String>,
}

/// What each assemblage needs, as of its last reconcile.
#[derive(Debug, Default)]
pub struct Needs(Mutex<BTreeMap<Key, Need>>);

impl Needs {
    /// Replaces what an assemblage needs.
    pub fn set(&self, assemblage: &Key, need: Need) {
        self.0.lock().insert(assemblage.clone(), need);
    }

    /// Drops assemblages that no longer exist.
    pub fn retain(&self, lives: impl Fn(&Key) -> bool) {
        self.0.lock().retain(|key, _| lives(key));
    }

    /// The assemblages that need a source.
    pub fn of_source(&self, name: &str) -> Vec<Key> {
        self.who(|need| need.sources.contains(name))
    }

    /// The assemblages that need a Kustomization.
    pub fn of_kustomization(&self, name: &str) -> Vec<Key> {
        self.who(|need| need.kustomizations.contains(name))
    }

    fn who(&self, needs: impl Fn(&Need) -> bool) -> Vec<Key> {
        self.0
            .lock()
            .iter()
            .filter(|(_, need)| needs(need))
            .map(|(key, _)| key.clone())
            .collect()
    }
}
