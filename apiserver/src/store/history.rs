//! What happened to one resource, newest last, for watches and for lists in the past.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Object, ObjectKey};

/// What a write did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// It was there before.
    Modified,
    /// It is gone.
    Deleted,
}

/// One write.
#[derive(Debug)]
pub struct Change {
    /// The resource version of the write.
    pub revision: u64,
    /// What it did.
    pub kind: ChangeKind,
    /// To which object.
    pub key: ObjectKey,
    /// The object after the write; for a deletion its last state, with the revision of the deletion.
    pub object: Object,
    /// The object before the write.
    pub previous: Option<Object>,
    /// When.
    pub at: Instant,
}

/// The past that was asked for is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The oldest revision after which all is known.
    pub oldest: u64,
}

/// The changes of one resource.
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    /// All changes after this revision are here.
    compacted: u64,
}

impl History {
    pub(super) fn new(compacted: u64) -> Self {
        Self {
            changes: VecDeque::new(),
            compacted,
        }
    }

    pub(super) fn push(&mut self, change: Arc<Change>, limit: usize) {
        self.changes.push_back(change);
        while self.changes.len() > limit {
            if let Some(oldest) = self.changes.pop_front() {
                self.compacted = oldest.revision;
            }
        }
    }

    pub(super) fn compact(&mut self, revision: u64) {
        self.changes.clear();
        self.compacted = revision;
    }

    /// The changes after `revision`, oldest first, at most `max`.
    pub(super) fn after(&self, revision: u64, max: usize) -> Result<Vec<Arc<Change>>, Expired> {
        self.check(revision)?;
        let start = self.changes.partition_point(|change| change.revision <= revision);
        Ok(self.changes.range(start..).take(max).cloned().collect())
    }

    /// The changes after `revision`, newest first.
    pub(super) fn back_to(&self, revision: u64) -> Result<impl Iterator<Item = &Arc<Change>>, Expired> {
        self.check(revision)?;
        let start = self.changes.partition_point(|change| change.revision <= revision);
        Ok(self.changes.range(start..).rev())
    }

    fn check(&self, revision: u64) -> Result<(), Expired> {
        if revision < self.compacted {
            Err(Expired {
                oldest: self.compacted,
            })
        } else {
            Ok(())
        }
    }
}
