//! What an API server has recorded: requests, and versions of objects.

use std::{sync::Arc, time::Duration};

use muster_apiserver::{
    ChangeKind,
    record::{EventRecord, RequestRecord},
};
use serde_json::Value;
use tokio::time::Instant;

use super::{AGENT, CONTROLLER};

/// A request to an API server.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it arrived, since the start of the server; on real servers, since the start of their fleet.
    pub at: Duration,
    /// The same on tokio's clock.
    pub came: Instant,
    /// The user who sent it.
    pub user: String,
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, after `?`.
    pub query: String,
    /// How long it took, or how long the watch lasted; `None` while it is open.
    pub lasted: Option<Duration>,
}

impl Request {
    pub(super) fn recorded(record: &RequestRecord) -> Self {
        Self {
            at: record.at,
            came: record.came(),
            user: record.client.clone(),
            method: record.method.clone(),
            path: record.path.clone(),
            query: record.query.clone(),
            lasted: record.lasted(),
        }
    }

    /// Whether a process of muster sent the request.
    pub(super) fn is_ours(&self) -> bool {
        self.user.starts_with(CONTROLLER) || self.user == AGENT
    }

    pub(super) fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// Whether it may change an object other than a lease.
    pub(super) fn is_change(&self) -> bool {
        self.method != "GET" && !self.path.starts_with("/apis/coordination.k8s.io/")
    }

    /// Whether the request changes an object: dry runs do not.
    pub(super) fn is_write(&self) -> bool {
        self.is_change() && !self.query.contains("dryRun=All")
    }
}

/// One version of one object.
pub struct Event {
    /// The time. On real servers only the order is meaningful: see [`real`].
    pub at: Instant,
    version: Version,
}

enum Version {
    Recorded(EventRecord),
    Watched(ChangeKind, Arc<Value>),
}

impl Event {
    pub(super) fn recorded(event: EventRecord) -> Self {
        Self {
            at: event.at,
            version: Version::Recorded(event),
        }
    }

    pub(super) fn watched(at: Instant, kind: ChangeKind, object: Arc<Value>) -> Self {
        Self {
            at,
            version: Version::Watched(kind, object),
        }
    }

    /// The kind of the change.
    pub fn kind(&self) -> ChangeKind {
        match &self.version {
            Version::Recorded(event) => event.kind(),
            Version::Watched(kind, _) => *kind,
        }
    }

    /// The object after the write; for a deletion, its last state.
    pub fn object(&self) -> &Value {
        match &self.version {
            Version::Recorded(event) => event.object(),
            Version::Watched(_, object) => object,
        }
    }
}
