//! All objects of one server, their history, and their owners.
//!
//! One counter gives every write its resource version. A version of an object is one JSON text ([`Stored`]), shared
//! between the store, the watch history and the responses.
//!
//! - Invariant: a write has the revision that it replaces; if that is no longer current, it is rejected ([`Raced`]) and
//!   nothing changes.
//! - Invariant: the history of a resource is ordered by revision and has no gap after its `compacted` revision.
//! - Invariant: the versions kept only by the histories never take more than [`Limits::bytes`], except for a single
//!   larger change.

mod history;
mod page;
mod recent;
mod stored;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

pub use history::ChangeKind;
pub(crate) use history::{Change, Expired};
pub(crate) use page::{Page, PageQuery};
pub(crate) use stored::{Object, Stored};

use crate::meta;
use crate::schema::Schema;
use crate::status::GroupResource;
use history::History;
use recent::Recent;
use stored::Draft;

/// Identifies an object of a resource by namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// The key of `namespace`/`name`.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The key from an object's metadata.
    pub(crate) fn of(object: &Value) -> Self {
        Self::new(meta::namespace(object), meta::name(object))
    }
}

/// Identifies an object by its resource and its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId {
    /// The resource under which it is stored.
    pub resource: GroupResource,
    /// The key in that resource.
    pub key: ObjectKey,
}

/// Another write was first, or the resource was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raced;

/// A write to the store.
#[derive(Debug)]
pub(crate) enum Write {
    /// Store this object.
    Put(Value),
    /// Remove the object; the value is its last state.
    Remove(Value),
}

/// Called with each change, in order, while the store is locked: must be fast and must not call the store.
pub(crate) type Observer = Box<dyn Fn(&GroupResource, &Arc<Change>) + Send + Sync>;

/// The objects of one server.
pub(crate) struct Store {
    inner: RwLock<Inner>,
    observers: Vec<Observer>,
    limits: Limits,
    recent: Recent,
}

/// How much history is kept; the oldest is dropped first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of changes of each resource.
    pub changes: usize,
    /// Maximum number of bytes of all resources together.
    pub bytes: usize,
}

struct Inner {
    revision: u64,
    tables: HashMap<GroupResource, Table>,
    /// Every current object by uid.
    uids: HashMap<String, ObjectId>,
    /// The dependents of each owner, by the owner's uid.
    dependents: HashMap<String, BTreeSet<ObjectId>>,
}

struct Table {
    objects: BTreeMap<ObjectKey, Object>,
    history: History,
    wake: watch::Sender<u64>,
}

impl Table {
    fn new(compacted: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: History::new(compacted),
            wake: watch::Sender::new(0),
        }
    }
}

impl Store {
    /// An empty store with these limits for its history.
    pub(crate) fn new(limits: Limits, observers: Vec<Observer>) -> Self {
        let inner = Inner {
            revision: 1,
            tables: HashMap::new(),
            uids: HashMap::new(),
            dependents: HashMap::new(),
        };
        Self {
            inner: RwLock::new(inner),
            observers,
            limits,
            recent: Recent::default(),
        }
    }

    /// The latest resource version.
    pub(crate) fn revision(&self) -> u64 {
        self.inner.read().revision
    }

    /// Adds a resource. `compacted`: watches must not start before now (kinds defined later).
    pub(crate) fn open(&self, resource: &GroupResource, compacted: bool) {
        let mut inner = self.inner.write();
        let oldest = if compacted { inner.revision } else { 0 };
        inner
            .tables
            .entry(resource.clone())
            .or_insert_with(|| Table::new(oldest));
    }

    /// Ends the watches of a resource and drops its history: its definition has changed.
    pub(crate) fn renew(&self, resource: &GroupResource) {
        let mut inner = self.inner.write();
        let revision = inner.revision;
        if let Some(table) = inner.tables.get_mut(resource) {
            table.history.compact(revision);
            table.wake = watch::Sender::new(0);
        }
    }

    /// Removes a resource with all its objects and ends its watches.
    pub(crate) fn close(&self, resource: &GroupResource) {
        let mut inner = self.inner.write();
        let Some(table) = inner.tables.remove(resource) else {
            return;
        };
        for (key, object) in table.objects {
            let id = ObjectId {
                resource: resource.clone(),
                key,
            };
            inner.unlink(&id, &object);
        }
    }

    /// Finds an object by key.
    pub(crate) fn get(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Object> {
        self.inner.read().tables.get(resource)?.objects.get(key).cloned()
    }

    /// The current object with this uid.
    pub(crate) fn find_uid(&self, uid: &str) -> Option<(ObjectId, Object)> {
        let inner = self.inner.read();
        let id = inner.uids.get(uid)?;
        let object = inner.tables.get(&id.resource)?.objects.get(&id.key)?;
        Some((id.clone(), object.clone()))
    }

    /// The current objects with the owner of this uid.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(ObjectId, Object)> {
        let inner = self.inner.read();
        let Some(ids) = inner.dependents.get(uid) else {
            return Vec::new();
        };
        ids.iter()
            .filter_map(|id| {
                Some((
                    id.clone(),
                    inner.tables.get(&id.resource)?.objects.get(&id.key)?.clone(),
                ))
            })
            .collect()
    }

    /// One page of a list, in key order.
    pub(crate) fn page(&self, resource: &GroupResource, query: &PageQuery<'_>) -> Result<Page, Expired> {
        let inner = self.inner.read();
        let Some(table) = inner.tables.get(resource) else {
            return Ok(Page::empty(inner.revision));
        };
        page::read(&table.objects, &table.history, inner.revision, query)
    }

    /// All objects of a resource, of one namespace or of all.
    pub(crate) fn all(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Object> {
        let query = PageQuery {
            namespace,
            ..PageQuery::default()
        };
        self.page(resource, &query)
            .map(|page| page.items)
            .unwrap_or_default() // only a list at an earlier version can be expired
    }

    /// Writes one object. `expected` is the revision that the write replaces, `None` if the object must not exist.
    pub(crate) fn commit(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        expected: Option<u64>,
        write: &Write,
    ) -> Result<Object, Raced> {
        let (is_put, draft) = match write {
            Write::Put(value) => (true, Draft::of(value)),
            Write::Remove(value) => (false, Draft::of(value)),
        };
        let mut inner = self.inner.write();
        let revision = inner.revision + 1;
        let table = inner.tables.get_mut(resource).ok_or(Raced)?;
        let previous = table.objects.get(key).cloned();
        if previous.as_ref().map(|object| object.revision) != expected {
            return Err(Raced);
        }
        let object = draft.numbered(revision);
        let kind = match (is_put, &previous) {
            (false, _) => ChangeKind::Deleted,
            (true, Some(_)) => ChangeKind::Modified,
            (true, None) => ChangeKind::Added,
        };
        if is_put {
            table.objects.insert(key.clone(), object.clone());
        } else {
            table.objects.remove(key);
        }
        let change = Arc::new(Change {
            revision,
            kind,
            key: key.clone(),
            object: object.clone(),
            previous: previous.clone(),
            at: Instant::now(),
        });
        inner.make_room(self.limits.bytes.saturating_sub(change.size()));
        let table = inner.tables.get_mut(resource).ok_or(Raced)?;
        table.history.push(change.clone(), self.limits.changes);
        table.wake.send_replace(revision);
        inner.revision = revision;
        let id = ObjectId {
            resource: resource.clone(),
            key: key.clone(),
        };
        if let Some(previous) = &previous {
            inner.unlink(&id, previous);
        }
        if is_put {
            inner.link(&id, &object);
        }
        for observer in &self.observers {
            observer(resource, &change);
        }
        Ok(object)
    }

    /// Keeps the parsed value of the `object` that replaced the version with the revision `previous`, for the next
    /// write, and the schema by which it is `settled`, if any. Nothing is kept of a small object.
    pub(crate) fn keep_parsed(
        &self,
        previous: u64,
        object: &Object,
        value: Value,
        settled: impl FnOnce(&Value) -> Option<Arc<Schema>>,
    ) {
        if Recent::is_large(object) {
            let settled = settled(&value);
            self.recent.keep(previous, object, value, settled);
        }
    }

    /// The parsed value of an object, and the schema by which it is settled, if that is known.
    pub(crate) fn parsed(&self, object: &Object) -> (Arc<Value>, Option<Arc<Schema>>) {
        let kept = self.recent.get(object.revision);
        kept.unwrap_or_else(|| (Arc::new(object.value()), None))
    }

    /// Notifies about changes of the resource; ends when the resource is removed.
    pub(crate) fn subscribe(&self, resource: &GroupResource) -> Option<watch::Receiver<u64>> {
        Some(self.inner.read().tables.get(resource)?.wake.subscribe())
    }

    /// At most `max` changes of a resource after `revision`, and the revision up to which they are complete.
    pub(crate) fn changes_after(
        &self,
        resource: &GroupResource,
        revision: u64,
        max: usize,
    ) -> Result<(Vec<Arc<Change>>, u64), Expired> {
        let inner = self.inner.read();
        let Some(table) = inner.tables.get(resource) else {
            return Ok((Vec::new(), revision));
        };
        let changes = table.history.after(revision, max)?;
        let complete = match changes.last() {
            Some(last) if changes.len() == max => last.revision,
            _ => inner.revision.max(revision),
        };
        Ok((changes, complete))
    }

    /// The bytes of the current objects, and those kept only by the histories.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let inner = self.inner.read();
        let live = inner.tables.values().flat_map(|table| table.objects.values());
        let past = inner.tables.values().map(|table| table.history.bytes());
        (live.map(|object| object.size()).sum(), past.sum())
    }

    /// Drops all history up to now: watches and lists from earlier versions get 410 afterwards.
    pub(crate) fn compact(&self) {
        let mut inner = self.inner.write();
        let revision = inner.revision;
        for table in inner.tables.values_mut() {
            table.history.compact(revision);
        }
    }
}

impl Inner {
    /// Drops changes until the histories take at most `bytes`. The resource with the largest history is first, so that
    /// a burst of large objects does not end the watches of the others.
    fn make_room(&mut self, bytes: usize) {
        let mut held: usize = self.tables.values().map(|table| table.history.bytes()).sum();
        while held > bytes {
            let largest = self
                .tables
                .iter_mut()
                .max_by(|(a, one), (b, other)| (one.history.bytes(), a).cmp(&(other.history.bytes(), b)));
            let Some(freed) = largest.and_then(|(_, table)| table.history.forget_oldest()) else {
                return;
            };
            held -= freed;
        }
    }

    fn link(&mut self, id: &ObjectId, object: &Stored) {
        self.uids.insert(object.uid().to_owned(), id.clone());
        for owner in object.owners() {
            self.dependents
                .entry(owner.to_owned())
                .or_default()
                .insert(id.clone());
        }
    }

    fn unlink(&mut self, id: &ObjectId, object: &Stored) {
        self.uids.remove(object.uid());
        for owner in object.owners() {
            if let Some(all) = self.dependents.get_mut(owner) {
                all.remove(id);
                if all.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }
}
