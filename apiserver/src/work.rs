//! Work queue of objects that may need attention, each queued once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::status::GroupResource;
use crate::store::{Change, ChangeKind, ObjectId};

/// An object to check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// An object with owners: do they exist?
    Dependent(ObjectId),
    /// An object with this uid was deleted: does it have dependents?
    OwnerGone(String),
    /// An object with this uid may be waiting for its dependents.
    OwnerWaiting(String),
    /// A namespace was created, changed, or lost content.
    Namespace(String),
    /// A definition was created, changed, or lost an instance.
    Definition(String),
    /// A definition without instances has existed long enough.
    DefinitionEnd(String),
}

/// Deduplicated queue, bounded by the number of objects.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    now: Mutex<BTreeSet<Work>>,
    later: Mutex<BTreeSet<(Instant, Work)>>,
    notify: Notify,
}

impl WorkQueue {
    /// Adds work.
    pub(crate) fn push(&self, work: Work) {
        self.now.lock().insert(work);
        self.notify.notify_one();
    }

    /// Adds work for after `delay`.
    pub(crate) fn push_later(&self, work: Work, delay: Duration) {
        self.later.lock().insert((Instant::now() + delay, work));
        self.notify.notify_one();
    }

    /// Waits for the next item.
    pub(crate) async fn next(&self) -> Work {
        loop {
            if let Some(work) = self.due() {
                return work;
            }
            let next = self.later.lock().first().map(|(at, _)| *at);
            match next {
                None => self.notify.notified().await,
                Some(at) => {
                    tokio::select! {
                        () = self.notify.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// The next item, if there is one now.
    pub(crate) fn due(&self) -> Option<Work> {
        self.take_due();
        self.now.lock().pop_first()
    }

    fn take_due(&self) {
        let mut later = self.later.lock();
        while later.first().is_some_and(|(at, _)| *at <= Instant::now()) {
            if let Some((_, work)) = later.pop_first() {
                self.now.lock().insert(work);
            }
        }
    }

    /// Queues the work that follows from a change in the store.
    pub(crate) fn enqueue_for_change(&self, resource: &GroupResource, change: &Arc<Change>) {
        let object = &change.object;
        let is_gone = change.kind == ChangeKind::Deleted;
        let is_core = resource.group.is_empty();
        if is_gone {
            self.push(Work::OwnerGone(object.uid().to_owned()));
            if !change.key.namespace.is_empty() {
                self.push(Work::Namespace(change.key.namespace.clone()));
            }
            if !is_core {
                self.push(Work::Definition(resource.to_string()));
            }
        } else if object.waits_for_dependents() {
            self.push(Work::OwnerWaiting(object.uid().to_owned()));
        }
        match resource.resource.as_str() {
            "namespaces" if is_core => self.push(Work::Namespace(change.key.name.clone())),
            "customresourcedefinitions" => self.push(Work::Definition(change.key.name.clone())),
            _ => {}
        }
        self.note_owners(resource, change, is_gone);
    }

    fn note_owners(&self, resource: &GroupResource, change: &Arc<Change>, is_gone: bool) {
        let object = &change.object;
        let before = change.previous.as_ref();
        let old_owners = before.into_iter().flat_map(|before| before.owners());
        for owner in object.owners().chain(old_owners) {
            self.push(Work::OwnerWaiting(owner.to_owned()));
        }
        let references = object.owner_references();
        let changed = before.is_none_or(|before| before.owner_references() != references);
        if !is_gone && changed && !references.is_empty() {
            self.push(Work::Dependent(ObjectId {
                resource: resource.clone(),
                key: change.key.clone(),
            }));
        }
    }
}
