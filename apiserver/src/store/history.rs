//! Changes of one resource, newest last, for watches and for lists at earlier versions.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Object, ObjectKey};

/// Type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object existed before.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// One write.
#[derive(Debug)]
pub(crate) struct Change {
    /// The resource version of the write.
    pub revision: u64,
    /// Type of the change.
    pub kind: ChangeKind,
    /// Key of the object.
    pub key: ObjectKey,
    /// The object after the write; for a deletion its last state, with the revision of the deletion.
    pub object: Object,
    /// The object before the write.
    pub previous: Option<Object>,
    /// When it was written.
    pub at: Instant,
}

impl Change {
    /// The bytes kept only for this change. The version after the write belongs to the store, or to the change that
    /// replaced it, so each old version counts once.
    pub(super) fn size(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |object| object.size());
        let last = if self.kind == ChangeKind::Deleted {
            self.object.size()
        } else {
            0
        };
        size_of::<Self>() + self.key.namespace.len() + self.key.name.len() + previous + last
    }
}

/// The requested history is no longer available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest revision after which all changes are available.
    pub oldest: u64,
}

/// The changes of one resource.
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    /// The bytes kept for the changes.
    bytes: usize,
    /// All changes after this revision are available.
    compacted: u64,
}

impl History {
    pub(super) fn new(compacted: u64) -> Self {
        Self {
            changes: VecDeque::new(),
            bytes: 0,
            compacted,
        }
    }

    /// The bytes kept for the changes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, change: Arc<Change>, limit: usize) {
        self.bytes += change.size();
        self.changes.push_back(change);
        while self.changes.len() > limit {
            self.forget_oldest();
        }
    }

    /// Drops the oldest change and returns its bytes.
    pub(super) fn forget_oldest(&mut self) -> Option<usize> {
        let oldest = self.changes.pop_front()?;
        self.compacted = oldest.revision;
        let freed = oldest.size();
        self.bytes -= freed;
        Some(freed)
    }

    pub(super) fn compact(&mut self, revision: u64) {
        self.changes = VecDeque::new();
        self.bytes = 0;
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
