//! Recorded requests and events: for tests and external observers.
//!
//! Both logs are ring buffers; the oldest entries are dropped first, and [`Recorder::dropped`] tells how many.

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

/// Default number of entries in each log: a request takes about 300 bytes, an event little in addition to the object
/// that it shares.
pub const DEFAULT_LIMIT: usize = 65_536;

/// One request. Code and bytes are known when the response has begun, and the bytes grow with a watch.
#[derive(Debug)]
pub struct RequestRecord {
    /// When the request arrived, since the start of the server.
    pub at: Duration,
    /// The Kubernetes verb; `None` for discovery and health.
    pub verb: Option<Verb>,
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query string, empty if there is none.
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
    /// When the request arrived, on tokio's clock.
    pub fn came(&self) -> Instant {
        self.began
    }

    /// How long a streaming response such as a watch lasted; `None` while it is open.
    pub fn lasted(&self) -> Option<Duration> {
        self.lasted.get().copied()
    }

    /// The code of the response; 0 while there is none, and for requests whose connection was closed.
    pub fn code(&self) -> u16 {
        self.code.load(Ordering::Relaxed)
    }

    /// The bytes of the response body so far.
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

/// A write with the parsed JSON of its versions: parsed on first use, shared by all copies of the record.
#[derive(Debug)]
struct Recorded {
    change: Arc<Change>,
    object: OnceLock<Value>,
    previous: OnceLock<Option<Value>>,
}

impl EventRecord {
    /// Type of the change.
    pub fn kind(&self) -> ChangeKind {
        self.write.change.kind
    }

    /// Resource version of the write.
    pub fn revision(&self) -> u64 {
        self.write.change.revision
    }

    /// The object after the write; for a deletion, its last state.
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
    /// A recorder that keeps `limit` entries in each log; the event log is optional, because it keeps every version of
    /// every object in memory.
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

    /// The writes of the clients for whose name `counts` is true.
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

    pub(crate) fn record_change(&self, resource: &GroupResource, change: &Arc<Change>) {
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

/// A request in progress.
pub(crate) struct Recording(Arc<RequestRecord>);

impl Recording {
    pub(crate) fn end(&self, code: u16, bytes: u64) {
        self.0.code.store(code, Ordering::Relaxed);
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes of a stream, and the time until it ends or is dropped.
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

/// A streaming response in progress.
struct Stream(Arc<RequestRecord>);

impl Drop for Stream {
    fn drop(&mut self) {
        // Set only here, and only once.
        self.0.lasted.get_or_init(|| self.0.began.elapsed());
    }
}
