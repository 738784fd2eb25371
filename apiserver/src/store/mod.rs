//! All objects of one server, their history, and who owns whom.
//!
//! One counter gives every write its resource version. An object is stored once and shared (`Arc`) between the store,
//! the watch history and the responses.
//!
//! - Invariant: a write names what it replaces; if that is not there any more it is refused ([`Raced`]) and nothing changes.
//! - Invariant: the history of a resource is ordered by revision and has no gap after its `compacted` revision.

mod history;
mod page;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

pub use history::{Change, ChangeKind, Expired};
pub use page::{Page, PageQuery};

use crate::meta;
use crate::status::GroupResource;
use history::History;

/// An object is found by namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// The key of `namespace`/`name`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The key that an object's own metadata gives.
    pub fn of(object: &Value) -> Self {
        Self::new(meta::namespace(object), meta::name(object))
    }
}

/// Where an object is: its resource and its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The resource under which it is stored.
    pub resource: GroupResource,
    /// Its key there.
    pub key: ObjectKey,
}

/// One version of an object.
#[derive(Debug)]
pub struct Stored {
    /// The object, `metadata.resourceVersion` included.
    pub value: Value,
    /// Its resource version as a number.
    pub revision: u64,
    json: OnceLock<Bytes>,
}

impl Stored {
    fn new(mut value: Value, revision: u64) -> Self {
        meta::set(&mut value, "resourceVersion", revision.to_string().into());
        Self {
            value,
            revision,
            json: OnceLock::new(),
        }
    }

    /// An object that is shown and not stored, as by a dry run.
    pub fn unsaved(value: Value) -> Object {
        let revision = meta::resource_version(&value).parse().unwrap_or_default(); // a new one has none
        Arc::new(Self {
            value,
            revision,
            json: OnceLock::new(),
        })
    }

    /// The object as JSON text, made once and shared by all who send it.
    pub fn json(&self) -> Bytes {
        self.json
            .get_or_init(|| Bytes::from(self.value.to_string()))
            .clone()
    }
}

/// A shared version of an object.
pub type Object = Arc<Stored>;

/// Somebody else wrote first, or the resource is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raced;

/// What a write does.
#[derive(Debug)]
pub enum Write {
    /// Store this object.
    Put(Value),
    /// Remove the object; the value is its last state.
    Remove(Value),
}

/// Called with each change, in order, while the store is locked: must be quick and not call back.
pub type Observer = Box<dyn Fn(&GroupResource, &Arc<Change>) + Send + Sync>;

/// The objects of one server.
pub struct Store {
    inner: RwLock<Inner>,
    observers: Vec<Observer>,
    history_limit: usize,
}

struct Inner {
    revision: u64,
    tables: HashMap<GroupResource, Table>,
    /// Every live object by uid.
    uids: HashMap<String, ObjectId>,
    /// Who names an owner, by the owner's uid.
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
    /// An empty store that keeps `history_limit` changes of each resource for watches.
    pub fn new(history_limit: usize, observers: Vec<Observer>) -> Self {
        let inner = Inner {
            revision: 1,
            tables: HashMap::new(),
            uids: HashMap::new(),
            dependents: HashMap::new(),
        };
        Self {
            inner: RwLock::new(inner),
            observers,
            history_limit,
        }
    }

    /// The resource version of the newest write.
    pub fn revision(&self) -> u64 {
        self.inner.read().revision
    }

    /// Makes room for a resource. `compacted`: watches may not start before now (kinds that come later).
    pub fn open(&self, resource: &GroupResource, compacted: bool) {
        let mut inner = self.inner.write();
        let oldest = if compacted { inner.revision } else { 0 };
        inner
            .tables
            .entry(resource.clone())
            .or_insert_with(|| Table::new(oldest));
    }

    /// Ends the watches of a resource and forgets its history: it is served as something else from now on.
    pub fn renew(&self, resource: &GroupResource) {
        let mut inner = self.inner.write();
        let revision = inner.revision;
        if let Some(table) = inner.tables.get_mut(resource) {
            table.history.compact(revision);
            table.wake = watch::Sender::new(0);
        }
    }

    /// Forgets a resource with all its objects and ends its watches.
    pub fn close(&self, resource: &GroupResource) {
        let mut inner = self.inner.write();
        let Some(table) = inner.tables.remove(resource) else {
            return;
        };
        for (key, object) in table.objects {
            let id = ObjectId {
                resource: resource.clone(),
                key,
            };
            inner.unlink(&id, &object.value);
        }
    }

    /// One object.
    pub fn get(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Object> {
        self.inner.read().tables.get(resource)?.objects.get(key).cloned()
    }

    /// The live object with this uid.
    pub fn find_uid(&self, uid: &str) -> Option<(ObjectId, Object)> {
        let inner = self.inner.read();
        let id = inner.uids.get(uid)?;
        let object = inner.tables.get(&id.resource)?.objects.get(&id.key)?;
        Some((id.clone(), object.clone()))
    }

    /// The live objects that name the owner with this uid.
    pub fn dependents(&self, uid: &str) -> Vec<(ObjectId, Object)> {
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
    pub fn page(&self, resource: &GroupResource, query: &PageQuery<'_>) -> Result<Page, Expired> {
        let inner = self.inner.read();
        let Some(table) = inner.tables.get(resource) else {
            return Ok(Page::empty(inner.revision));
        };
        page::read(&table.objects, &table.history, inner.revision, query)
    }

    /// All objects of a resource, of one namespace or of all.
    pub fn all(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Object> {
        let query = PageQuery {
            namespace,
            ..PageQuery::default()
        };
        self.page(resource, &query)
            .map(|page| page.items)
            .unwrap_or_default() // only a list in the past can be expired
    }

    /// Writes one object. `expected` is the revision that the write replaces, `None` if there must be no object.
    pub fn commit(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        expected: Option<u64>,
        write: Write,
    ) -> Result<Object, Raced> {
        let mut inner = self.inner.write();
        let revision = inner.revision + 1;
        let table = inner.tables.get_mut(resource).ok_or(Raced)?;
        let previous = table.objects.get(key).cloned();
        if previous.as_ref().map(|object| object.revision) != expected {
            return Err(Raced);
        }
        let (object, kind) = match write {
            Write::Put(value) => {
                let object = Arc::new(Stored::new(value, revision));
                table.objects.insert(key.clone(), object.clone());
                (
                    object,
                    if previous.is_some() {
                        ChangeKind::Modified
                    } else {
                        ChangeKind::Added
                    },
                )
            }
            Write::Remove(value) => {
                table.objects.remove(key);
                (Arc::new(Stored::new(value, revision)), ChangeKind::Deleted)
            }
        };
        let change = Arc::new(Change {
            revision,
            kind,
            key: key.clone(),
            object: object.clone(),
            previous: previous.clone(),
            at: Instant::now(),
        });
        table.history.push(change.clone(), self.history_limit);
        table.wake.send_replace(revision);
        inner.revision = revision;
        let id = ObjectId {
            resource: resource.clone(),
            key: key.clone(),
        };
        if let Some(previous) = &previous {
            inner.unlink(&id, &previous.value);
        }
        if kind != ChangeKind::Deleted {
            inner.link(&id, &object.value);
        }
        for observer in &self.observers {
            observer(resource, &change);
        }
        Ok(object)
    }

    /// Wakes when the resource changes; ends when the resource is gone.
    pub fn subscribe(&self, resource: &GroupResource) -> Option<watch::Receiver<u64>> {
        Some(self.inner.read().tables.get(resource)?.wake.subscribe())
    }

    /// What happened to a resource after `revision`, at most `max` changes; with the revision up to which the answer is
    /// complete.
    pub fn changes_after(
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

    /// Forgets all history up to now: watches and lists of the past answer 410 from here on.
    pub fn compact(&self) {
        let mut inner = self.inner.write();
        let revision = inner.revision;
        for table in inner.tables.values_mut() {
            table.history.compact(revision);
        }
    }
}

impl Inner {
    fn link(&mut self, id: &ObjectId, object: &Value) {
        self.uids.insert(meta::uid(object).to_owned(), id.clone());
        for owner in owner_uids(object) {
            self.dependents
                .entry(owner.to_owned())
                .or_default()
                .insert(id.clone());
        }
    }

    fn unlink(&mut self, id: &ObjectId, object: &Value) {
        self.uids.remove(meta::uid(object));
        for owner in owner_uids(object) {
            if let Some(all) = self.dependents.get_mut(owner) {
                all.remove(id);
                if all.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    meta::owners(object).filter_map(|owner| owner["uid"].as_str())
}
