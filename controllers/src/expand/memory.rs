//! What a process remembers about the Kustomizations that it works on, by name: nothing that must survive a restart.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::observed::KustomizationRow;

/// Guards against a watch that is behind, and against blaming a row for an unreachable cluster.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The uid and generation that were last read or written.
    versions: Mutex<BTreeMap<String, (String, i64)>>,
    /// Kustomizations whose cluster was unreachable since they were written.
    away: Mutex<BTreeSet<String>>,
}

impl Memory {
    /// Whether an entry of the index is at least as new as the last read or write.
    pub(crate) fn is_current(&self, name: &str, row: &KustomizationRow) -> bool {
        self.versions
            .lock()
            .get(name)
            .is_none_or(|(uid, generation)| *uid == row.uid && *generation <= row.generation)
    }

    /// The object was read.
    pub(crate) fn read(&self, name: &str, row: &KustomizationRow) {
        self.versions
            .lock()
            .insert(name.to_owned(), (row.uid.clone(), row.generation));
    }

    /// The object was written: later reports are about this write.
    pub(crate) fn written(&self, name: &str, row: &KustomizationRow) {
        self.read(name, row);
        self.lived_through(name);
    }

    /// The cluster is unreachable: failures that a Kustomization reports may be due to that, until it is written again
    /// or succeeds.
    pub(crate) fn away(&self, name: &str) {
        self.away.lock().insert(name.to_owned());
    }

    /// Reports of this Kustomization count again.
    pub(crate) fn lived_through(&self, name: &str) {
        self.away.lock().remove(name);
    }

    /// Whether the cluster was unreachable since the Kustomization was written.
    pub(crate) fn was_away(&self, name: &str) -> bool {
        self.away.lock().contains(name)
    }

    /// The object is deleted.
    pub(crate) fn remove(&self, name: &str) {
        self.versions.lock().remove(name);
        self.lived_through(name);
    }
}
