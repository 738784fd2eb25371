//! What was asked and what happened: for tests and for observers outside.
//!
//! Both logs are rings with a limit; the oldest entries go first, and [`Recorder::dropped`] says how many went.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::http::{Body, Caller, Verb};
use crate::status::GroupResource;
use crate::store::{Change, ChangeKind};

/// How many entries each log keeps unless chosen otherwise: a request takes about 300 bytes, an event little beside the
/// object that it shares.
pub const DEFAULT_LIMIT: usize = 65_536;

/// One request. Code and bytes are known when the response has begun, and grow with a watch.
#[derive(Debug)]
pub struct RequestRecord {
    /// When it came, since the start of the server.
    pub at: Duration,
    /// The Kubernetes verb; `None` for discovery and health.
    pub verb: Option<Verb>,
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The part after `?`, empty if there is none.
    pub query: String,
    /// The client's name.
    pub client: String,
    /// The client's user agent.
    pub agent: String,
    code: AtomicU16,
    bytes: AtomicU64,
    began: Instant,
    lasted: OnceLock<Duration>,
}

impl RequestRecord {
    /// When it came, on tokio's clock.
    pub fn came(&self) -> Instant {
        self.began
    }

    /// How long a response that is a stream lasted, such as a watch; `None` while it lasts.
    pub fn lasted(&self) -> Option<Duration> {
        self.lasted.get().copied()
    }

    /// The code of the response; 0 while there is none, and for requests that were refused a connection.
    pub fn code(&self) -> u16 {
        self.code.load(Ordering::Relaxed)
    }

    /// The bytes of the response's body so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it may change objects: a write that is not a dry run.
    pub fn is_write(&self) -> bool {
        self.verb.is_some_and(Verb::is_write) && !self.query.contains("dryRun=All")
    }
}

/// One version of one object.
#[derive(Clone, Debug)]
pub struct EventRecord {
    /// The instant of the write, on tokio's clock.
    pub at: Instant,
    /// The resource under which the object is stored.
    pub resource: GroupResource,
    write: Arc<Recorded>,
}

/// A write, and what the texts of its versions say: read once it is asked for, by whichever copy of the record.
#[derive(Debug)]
struct Recorded {
    change: Arc<Change>,
    object: OnceLock<Value>,
    previous: OnceLock<Option<Value>>,
}

impl EventRecord {
    /// What the write did.
    pub fn kind(&self) -> ChangeKind {
        self.write.change.kind
    }

    /// The resource version of the write.
    pub fn revision(&self) -> u64 {
        self.write.change.revision
    }

    /// The object after the write; of a deletion, its last state.
    pub fn object(&self) -> &Value {
        let write = &*self.write;
        write.object.get_or_init(|| write.change.object.value())
    }

    /// The object before the write.
    pub fn previous(&self) -> Option<&Value> {
        let write = &*self.write;
        let read = || write.change.previous.as_ref().map(|object| object.value());
        write.previous.get_or_init(read).as_ref()
    }
}

#[derive(Debug)]
struct Ring<T> {
    entries: VecDeque<T>,
    dropped: u64,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            dropped: 0,
        }
    }
}

impl<T> Ring<T> {
    fn push(&mut self, entry: T, limit: usize) {
        if limit == 0 {
            return;
        }
        if self.entries.len() >= limit {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
    }
}

/// The logs of a server.
#[derive(Debug, Default)]
pub struct Recorder {
    requests: Mutex<Ring<Arc<RequestRecord>>>,
    events: Mutex<Ring<EventRecord>>,
    keeps_events: bool,
    limit: usize,
}

impl Recorder {
    /// A recorder that keeps `limit` entries in each log; the event log keeps every version of every object alive, so
    /// that it is a choice.
    pub fn new(keeps_events: bool, limit: usize) -> Self {
        Self {
            keeps_events,
            limit,
            ..Self::default()
        }
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Arc<RequestRecord>> {
        self.requests.lock().entries.iter().cloned().collect()
    }

    /// The writes of one client so far, oldest first, each as `METHOD path`.
    pub fn writes(&self, client: &str) -> Vec<String> {
        self.writes_of(|name| name == client)
    }

    /// The writes of the clients whose name is as `counts` says.
    pub fn writes_of(&self, counts: impl Fn(&str) -> bool) -> Vec<String> {
        let requests = self.requests();
        let writes = requests
            .iter()
            .filter(|request| request.is_write() && counts(&request.client));
        writes
            .map(|request| format!("{} {}", request.method, request.path))
            .collect()
    }

    /// The versions of objects so far, oldest first; empty unless the server was built to keep them.
    pub fn events(&self) -> Vec<EventRecord> {
        self.events.lock().entries.iter().cloned().collect()
    }

    /// How many requests and events were dropped because the logs were full.
    pub fn dropped(&self) -> (u64, u64) {
        (self.requests.lock().dropped, self.events.lock().dropped)
    }

    /// Empties both logs.
    pub fn clear(&self) {
        *self.requests.lock() = Ring::default();
        *self.events.lock() = Ring::default();
    }

    pub(crate) fn note(&self, resource: &GroupResource, change: &Arc<Change>) {
        if self.keeps_events {
            let event = EventRecord {
                at: change.at,
                resource: resource.clone(),
                write: Arc::new(Recorded {
                    change: change.clone(),
                    object: OnceLock::new(),
                    previous: OnceLock::new(),
                }),
            };
            self.events.lock().push(event, self.limit);
        }
    }

    pub(crate) fn begin(
        &self,
        caller: &Caller,
        method: &http::Method,
        uri: &http::Uri,
        verb: Option<Verb>,
        at: Duration,
    ) -> Recording {
        let record = Arc::new(RequestRecord {
            at,
            verb,
            method: method.to_string(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            client: caller.client.clone(),
            agent: caller.agent.clone(),
            code: AtomicU16::new(0),
            bytes: AtomicU64::new(0),
            began: Instant::now(),
            lasted: OnceLock::new(),
        });
        self.requests.lock().push(record.clone(), self.limit);
        Recording(record)
    }
}

/// A request under way.
pub(crate) struct Recording(Arc<RequestRecord>);

impl Recording {
    pub(crate) fn end(&self, code: u16, bytes: u64) {
        self.0.code.store(code, Ordering::Relaxed);
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes of a stream as they go, and the time until it ends or nobody wants it any more.
    pub(crate) fn follow(&self, code: u16, body: Body) -> Body {
        self.end(code, 0);
        let stream = Stream(self.0.clone());
        let counted = body.map_frame(move |frame| {
            let size = frame.data_ref().map_or(0, Bytes::len);
            stream.0.bytes.fetch_add(size as u64, Ordering::Relaxed);
            frame
        });
        counted.boxed_unsync()
    }
}

/// A response under way that is a stream.
struct Stream(Arc<RequestRecord>);

impl Drop for Stream {
    fn drop(&mut self) {
        // It is set here and once only.
        self.0.lasted.get_or_init(|| self.0.began.elapsed());
    }
}
