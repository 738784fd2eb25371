//! From an HTTP request to its response.
//!
//! ```text
//! door ─► intake (faults, body, record) ─► route ─► read │ watch │ write │ patch │ delete ─► respond (view, format) ─► door
//! ```

mod accept;
mod admit;
mod apply_patch;
mod change;
mod connect;
mod decode;
mod delete;
mod evict;
mod intake;
mod query;
mod read;
mod respond;
mod route;
mod scale;
mod shape;
mod watch;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _};

pub use intake::{Body, BodyError, Caller, full};
pub use route::Verb;

pub(crate) use accept::ranges as media_ranges;
pub(crate) use respond::presented;

use crate::admission::{Admission, Warnings};
use crate::clock::Clock;
use crate::fault::Faults;
use crate::lifecycle::WorkQueue;
use crate::record::Recorder;
use crate::resources::Resource;
use crate::resources::catalog::Registry;
use crate::status::{ApiError, GroupResource};
use crate::store::{Object, ObjectKey, Store, Write};

/// Everything that one server is made of.
pub struct Core {
    /// The objects.
    pub store: Store,
    /// What is served.
    pub registry: Registry,
    /// The time.
    pub clock: Clock,
    /// What is to be done after writes: collection, namespaces, definitions.
    pub work: Arc<WorkQueue>,
    /// What was asked and what happened.
    pub recorder: Arc<Recorder>,
    /// What is to go wrong.
    pub faults: Faults,
    /// The admission webhooks.
    pub admission: Arc<Admission>,
    /// The PEM of the certificate authority, as clusters publish it.
    pub authority: String,
    random: Mutex<StdRng>,
    stopped: AtomicBool,
}

/// How often a write is tried again when others write the same object meanwhile. Each lost race is somebody else's
/// success, so that more than a few in a row mean a crowd on one object; then the client shall decide.
const RACES: usize = 64;

impl Core {
    /// Puts the parts together.
    pub fn new(store: Store, parts: Parts) -> Self {
        let Parts {
            clock,
            work,
            recorder,
            admission,
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
            admission,
            authority,
            random: Mutex::new(random),
            stopped: AtomicBool::new(false),
        }
    }

    /// From here on nobody is answered.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the server was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A fresh version 4 UUID.
    pub fn uid(&self) -> String {
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
    pub fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.random.lock();
        (0..5)
            .map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())]))
            .collect()
    }

    /// A number below `bound`, for cluster addresses.
    pub fn random_below(&self, bound: u32) -> u32 {
        self.random.lock().random_range(0..bound)
    }

    /// Runs `step` on the object as it stands and carries out what it decides, again if somebody else was faster.
    pub(crate) fn replace<T>(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        mut step: impl FnMut(Option<&Live>) -> Result<Step<T>, ApiError>,
    ) -> Result<(Object, T), ApiError> {
        for _ in 0..RACES {
            let live = self.store.get(resource, key).map(Live::read);
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

/// What [`Core::new`] needs besides the store.
pub struct Parts {
    /// The time.
    pub clock: Clock,
    /// The queue that the store's observer feeds.
    pub work: Arc<WorkQueue>,
    /// The recorder that the store's observer feeds.
    pub recorder: Arc<Recorder>,
    /// The admission that the store's observer feeds.
    pub admission: Arc<Admission>,
    /// The PEM of the certificate authority.
    pub authority: String,
    /// Source of uids and name suffixes.
    pub random: StdRng,
}

/// An object as it stands, read once for a write.
pub(crate) struct Live {
    /// The version.
    pub object: Object,
    /// What its text says.
    pub value: serde_json::Value,
}

impl Live {
    pub fn read(object: Object) -> Self {
        let value = object.value();
        Self { object, value }
    }
}

/// What a write decided on the object as it stands.
pub(crate) enum Step<T> {
    /// Nothing changes (or it is a dry run): answer with this.
    Keep(Object, T),
    /// Write this.
    Commit(Write, T),
}

/// A request to a resource, as the handlers get it.
pub(crate) struct Call<'a> {
    pub core: &'a Arc<Core>,
    pub resource: Arc<Resource>,
    pub target: &'a route::Target,
    pub query: &'a query::Query,
    pub caller: &'a Caller,
    pub body: bytes::Bytes,
    pub content_type: String,
    pub accept: accept::Accept,
    /// What webhooks warn of.
    pub warnings: Warnings,
}

impl Call<'_> {
    /// The key of the object that the path names.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.target.namespace, &self.target.name)
    }

    /// The resource as messages name it.
    fn named(&self) -> GroupResource {
        self.resource.group_resource()
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.named(), &self.target.name)
    }

    fn live(&self) -> Result<Object, ApiError> {
        self.core
            .store
            .get(&self.resource.storage, &self.key())
            .ok_or_else(|| self.not_found())
    }
}
