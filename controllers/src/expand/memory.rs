//! What a process remembers of the Kustomizations that it works on, by name: nothing that cannot be lost.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::seen::KustomizationRow;

/// Guards against a watch that is behind, and against blame for an absence.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The incarnation and generation that were last read or written.
    seen: Mutex<BTreeMap<String, (String, i64)>>,
    /// Kustomizations whose cluster was away since they were written.
    away: Mutex<BTreeSet<String>>,
}

impl Memory {
    /// Whether a row of the index is not older than what was read or written before.
    pub(crate) fn is_current(&self, name: &str, row: &KustomizationRow) -> bool {
        self.seen
            .lock()
            .get(name)
            .is_none_or(|(uid, generation)| *uid == row.uid && *generation <= row.generation)
    }

    /// The object was read.
    pub(crate) fn read(&self, name: &str, row: &KustomizationRow) {
        self.seen
            .lock()
            .insert(name.to_owned(), (row.uid.clone(), row.generation));
    }

    /// The object was written: what follows is told by its next reports.
    pub(crate) fn written(&self, name: &str, row: &KustomizationRow) {
        self.read(name, row);
        self.lived_through(name);
    }

    /// The cluster is away: what a Kustomization reports until it is written again, or has succeeded, may be due to that.
    pub(crate) fn away(&self, name: &str) {
        self.away.lock().insert(name.to_owned());
    }

    /// The absence is over for this Kustomization.
    pub(crate) fn lived_through(&self, name: &str) {
        self.away.lock().remove(name);
    }

    /// Whether the cluster was away since the Kustomization was written.
    pub(crate) fn was_away(&self, name: &str) -> bool {
        self.away.lock().contains(name)
    }

    /// The object is gone.
    pub(crate) fn forget(&self, name: &str) {
        self.seen.lock().remove(name);
        self.lived_through(name);
    }
}
