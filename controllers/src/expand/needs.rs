//! Which assemblage needs which objects, by name: so that a change of an object reaches those whom it concerns, whether the object says
//! so or not, and a source that nobody needs any more is noticed.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use crate::runtime::Key;

/// The objects that one assemblage needs.
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
    /// An assemblage needs exactly this.
    pub fn set(&self, assemblage: &Key, need: Need) {
        self.0.lock().insert(assemblage.clone(), need);
    }

    /// Assemblages that are no more need nothing.
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
