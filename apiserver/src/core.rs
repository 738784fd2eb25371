//! The state of one server, and how it changes its own objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _};
use serde_json::Value;

use crate::clock::Clock;
use crate::fault::Faults;
use crate::meta;
use crate::record::Recorder;
use crate::removal;
use crate::resources::Resource;
use crate::resources::catalog::Registry;
use crate::schema::Schema;
use crate::status::{ApiError, GroupResource};
use crate::store::{Object, ObjectId, ObjectKey, Store, Write};
use crate::webhooks::Webhooks;
use crate::work::WorkQueue;

/// The state of one server.
pub(crate) struct Core {
    /// Stored objects.
    pub store: Store,
    /// Served resources.
    pub registry: Registry,
    /// Time source.
    pub clock: Clock,
    /// Queue of work after writes: garbage collection, namespaces, definitions.
    pub work: Arc<WorkQueue>,
    /// Recorded requests and events.
    pub recorder: Arc<Recorder>,
    /// Fault rules.
    pub faults: Faults,
    /// Admission webhooks.
    pub webhooks: Arc<Webhooks>,
    /// The PEM certificate of the certificate authority, as clusters publish it.
    pub authority: String,
    random: Mutex<StdRng>,
    stopped: AtomicBool,
}

/// How often a write is retried after a conflict with other writers. Each conflict is another writer's success, so
/// several in a row mean that many write the same object; then the client must decide.
pub(crate) const RACES: usize = 64;

impl Core {
    /// Creates the state.
    pub(crate) fn new(store: Store, parts: Parts) -> Self {
        let Parts {
            clock,
            work,
            recorder,
            webhooks,
            authority,
            random,
        } = parts;
        let registry = Registry::builtin();
        for resource in crate::resources::builtin::all() {
            store.open(&resource.storage, false);
        }
        Self {
            store,
            registry,
            clock,
            work,
            recorder,
            faults: Faults::default(),
            webhooks,
            authority,
            random: Mutex::new(random),
            stopped: AtomicBool::new(false),
        }
    }

    /// Stops the server: no request is answered after this.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the server was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A fresh version 4 UUID.
    pub(crate) fn uid(&self) -> String {
        let mut bytes = [0u8; 16];
        self.random.lock().fill_bytes(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex = bytes.iter().fold(String::with_capacity(32), |mut hex, byte| {
            use std::fmt::Write as _;
            write!(hex, "{byte:02x}").unwrap_or_default(); // writing to a String cannot fail
            hex
        });
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }

    /// Five letters for a generated name, from Kubernetes' alphabet.
    pub(crate) fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.random.lock();
        (0..5)
            .map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())]))
            .collect()
    }

    /// A random number below `bound`, for cluster IPs.
    pub(crate) fn random_below(&self, bound: u32) -> u32 {
        self.random.lock().random_range(0..bound)
    }

    /// Runs `step` on the current object and applies its result; retries after a conflict.
    pub(crate) fn replace<T>(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        mut step: impl FnMut(Option<&Live>) -> Result<Step<T>, ApiError>,
    ) -> Result<(Object, T), ApiError> {
        for _ in 0..RACES {
            let live = self
                .store
                .get(resource, key)
                .map(|object| Live::read(&self.store, object));
            match step(live.as_ref())? {
                Step::Keep(object, answer) => return Ok((object, answer)),
                Step::Commit(write, answer) => {
                    let expected = live.as_ref().map(|live| live.object.revision);
                    if let Ok(object) = self.store.commit(resource, key, expected, &write) {
                        return Ok((object, answer));
                    }
                }
            }
        }
        Err(ApiError::modified(resource, &key.name))
    }
}

/// Arguments of [`Core::new`] other than the store.
pub(crate) struct Parts {
    /// Time source.
    pub clock: Clock,
    /// The queue that the store's observer feeds.
    pub work: Arc<WorkQueue>,
    /// The recorder that the store's observer feeds.
    pub recorder: Arc<Recorder>,
    /// The webhooks that the store's observer feeds.
    pub webhooks: Arc<Webhooks>,
    /// The PEM certificate of the certificate authority.
    pub authority: String,
    /// Source of uids and name suffixes.
    pub random: StdRng,
}

/// The current object, read once for a write.
pub(crate) struct Live {
    /// The stored version.
    pub object: Object,
    /// Its parsed JSON.
    pub value: Arc<Value>,
    settled: Option<Arc<Schema>>,
}

impl Live {
    pub(crate) fn read(store: &Store, object: Object) -> Self {
        let (value, settled) = store.parsed(&object);
        Self {
            object,
            value,
            settled,
        }
    }

    /// Whether a new version needs to be checked only where it differs from this one.
    pub(crate) fn is_settled(&self, resource: &Resource) -> bool {
        let schema = resource.custom().map(|custom| &custom.schema);
        let by = self.settled.as_ref().zip(schema);
        resource.is_stored_as_served() && by.is_some_and(|(settled, schema)| Arc::ptr_eq(settled, schema))
    }
}

/// Result of a write step on the current object.
pub(crate) enum Step<T> {
    /// Nothing changes (or it is a dry run): respond with this.
    Keep(Object, T),
    /// Store this.
    Commit(Write, T),
}

impl Core {
    /// Changes an object on behalf of the server; `edit` returns `None` to leave it alone.
    pub(crate) fn edit(
        &self,
        id: &ObjectId,
        mut edit: impl FnMut(&Value) -> Option<Value>,
    ) -> Option<Object> {
        let resource = self.registry.catalog().of_store(&id.resource).cloned()?;
        let changed = self.replace(&id.resource, &id.key, |live| {
            let live = live.ok_or_else(|| ApiError::not_found(&id.resource, &id.key.name))?;
            let Some(new) = edit(&live.value).filter(|new| *new != *live.value) else {
                return Ok(Step::Keep(live.object.clone(), ()));
            };
            let write = if removal::is_due(&resource, &new) {
                Write::Remove(new)
            } else {
                Write::Put(new)
            };
            Ok(Step::Commit(write, ()))
        });
        changed.ok().map(|(object, ())| object) // deleted in the meantime: nothing to change
    }

    /// Deletes an object on behalf of the server, if it still has this uid.
    pub(crate) fn remove(&self, id: &ObjectId, uid: &str, propagation: removal::Propagation) {
        let catalog = self.registry.catalog();
        let Some(resource) = catalog.of_store(&id.resource).cloned() else {
            return;
        };
        let now = self.clock.now();
        let outcome = self.replace(&id.resource, &id.key, |live| {
            let live = live.ok_or_else(|| ApiError::not_found(&id.resource, &id.key.name))?;
            if meta::uid(&live.value) != uid {
                return Ok(Step::Keep(live.object.clone(), ()));
            }
            let Some(doomed) = removal::doomed(&resource, &live.value, propagation, None, now) else {
                return Ok(Step::Keep(live.object.clone(), ()));
            };
            let write = match (
                removal::is_due(&resource, &doomed),
                meta::is_terminating(&live.value),
            ) {
                (true, true) => Write::Remove(doomed),
                (true, false) => Write::Remove(Value::clone(&live.value)),
                (false, _) => Write::Put(doomed),
            };
            Ok(Step::Commit(write, ()))
        });
        if let Err(error) = outcome
            && error.code != 404
        {
            tracing::debug!(%error, name = id.key.name, "an object could not be deleted and will be retried");
        }
    }

    /// Creates an object on behalf of the server; an existing one is fine.
    pub(crate) fn make(&self, resource: &GroupResource, mut object: Value) {
        meta::set_metadata(&mut object, "uid", self.uid().into());
        meta::set_metadata(&mut object, "creationTimestamp", self.clock.stamp().into());
        let key = ObjectKey::of(&object);
        if self
            .store
            .commit(resource, &key, None, &Write::Put(object))
            .is_err()
        {
            tracing::debug!(name = key.name, "the object already exists");
        }
    }
}
