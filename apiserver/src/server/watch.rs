//! Watches: the existing objects, then the changes, until the client closes or the timeout is over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::accept::{Accept, View};
use super::{Call, read, respond};
use crate::core::Core;
use crate::fault::Closing;
use crate::http::{Body, BodyError, Caller, streamed};
use crate::resources::{Resource, versions};
use crate::schema::Cause;
use crate::select::Selector;
use crate::status::{About, ApiError, ErrorBody};
use crate::store::{Change, ChangeKind, Object, PageQuery, Stored};
use crate::table;

/// Default duration of a watch: the lower bound of kube-apiserver's random choice.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
/// Interval of bookmarks on an idle watch, as in kube-apiserver.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How many changes are read from the history at once: enough to lock rarely, few enough to send early.
const BATCH: usize = 256;

/// The annotation on the bookmark after the initial events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// An open watch.
struct Watch {
    core: Arc<Core>,
    resource: Arc<Resource>,
    namespace: String,
    selector: Selector,
    accept: Accept,
    include: table::Include,
    /// Everything up to this revision was sent.
    cursor: u64,
    /// Events ready to be sent.
    ready: VecDeque<Ready>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    wake: tokio::sync::watch::Receiver<u64>,
    closing: Closing,
    caller: Caller,
    sent_columns: bool,
    over: bool,
}

/// An event waiting to be sent.
enum Ready {
    /// The text to send.
    Text(Bytes),
    /// A complete object: it shares its text until it is sent.
    Whole(&'static str, Object),
}

impl Ready {
    fn text(self) -> Bytes {
        let (kind, object) = match self {
            Self::Text(text) => return text,
            Self::Whole(kind, object) => (kind, object),
        };
        let json = object.json();
        let mut text = Vec::with_capacity(json.len() + 32);
        text.extend_from_slice(b"{\"type\":\"");
        text.extend_from_slice(kind.as_bytes());
        text.extend_from_slice(b"\",\"object\":");
        text.extend_from_slice(json);
        text.extend_from_slice(b"}\n");
        text.into()
    }
}

/// Where a watch starts.
struct Start {
    initial: bool,
    bookmark: bool,
    from: u64,
}

pub(super) fn open_watch(call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
    let selector = read::request_selector(call)?;
    let bookmarks = call.query.flag("allowWatchBookmarks").unwrap_or(false);
    let start = start(call, bookmarks)?;
    let timeout = call
        .query
        .number("timeoutSeconds")?
        .filter(|s| *s > 0)
        .map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let store = &call.core.store;
    let wake = store
        .subscribe(&call.resource.storage)
        .ok_or_else(ApiError::no_such_path)?;
    let now = Instant::now();
    let mut watch = Watch {
        core: call.core.clone(),
        resource: call.resource.clone(),
        namespace: call.target.namespace.clone(),
        selector,
        accept: call.accept,
        include: respond::include(call),
        cursor: start.from,
        ready: VecDeque::new(),
        bookmarks,
        next_bookmark: now + BOOKMARK_EVERY,
        deadline: now + timeout,
        wake,
        closing: call.core.faults.closing(),
        caller: call.caller.clone(),
        sent_columns: false,
        over: false,
    };
    if start.initial {
        watch.send_initial(start.bookmark);
    }
    let chunks = futures::stream::unfold(watch, async |mut watch| {
        let chunk = watch.next().await?;
        Some((chunk, watch))
    });
    let mut response = http::Response::new(streamed(chunks));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}

fn start(call: &Call<'_>, bookmarks: bool) -> Result<Start, ApiError> {
    let text = call.query.get("resourceVersion");
    let version: u64 = if text.is_empty() {
        0
    } else {
        text.parse().map_err(|_| {
            ApiError::internal(&format!("strconv.ParseUint: parsing \"{text}\": invalid syntax"))
        })?
    };
    let initial = call.query.flag("sendInitialEvents");
    match (initial, call.query.get("resourceVersionMatch")) {
        (Some(_), "NotOlderThan") | (None, "") => {}
        (Some(_), _) => {
            return Err(refused(
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        (None, _) => {
            return Err(refused(
                "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
    }
    let current = call.core.store.revision();
    Ok(match initial {
        Some(true) => Start {
            initial: true,
            bookmark: bookmarks,
            from: current,
        },
        Some(false) if version == 0 => Start {
            initial: false,
            bookmark: false,
            from: current,
        },
        None if version == 0 => Start {
            initial: true,
            bookmark: bookmarks && text.is_empty(),
            from: current,
        },
        Some(false) | None => Start {
            initial: false,
            bookmark: false,
            from: version,
        },
    })
}

fn refused(message: &str) -> ApiError {
    let about = About {
        group: "meta.k8s.io",
        kind: "ListOptions",
        name: "",
    };
    let cause = Cause::new(crate::schema::reason::FORBIDDEN, "resourceVersionMatch", message);
    ApiError::invalid(about, &[cause])
}

impl Watch {
    fn send_initial(&mut self, bookmark: bool) {
        let namespace = (!self.namespace.is_empty()).then_some(self.namespace.as_str());
        let matches = |object: &Stored| self.selector.matches(object);
        let query = PageQuery {
            namespace,
            filter: Some(&matches),
            ..PageQuery::default()
        };
        let Ok(page) = self.core.store.page(&self.resource.storage, &query) else {
            return;
        };
        self.cursor = page.revision;
        for object in &page.items {
            let event = self.event("ADDED", object);
            self.ready.push_back(event);
        }
        if bookmark {
            self.send_bookmark(true);
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event.text()));
            }
            // The resource was removed or redefined.
            if self.over || self.wake.has_changed().is_err() {
                return None;
            }
            self.wake.mark_unchanged();
            self.take_changes();
            if self.ready.is_empty() && !self.over {
                self.wait().await;
            }
        }
    }

    /// Waits for a change or a deadline.
    async fn wait(&mut self) {
        let quiet = if self.bookmarks {
            self.next_bookmark.min(self.deadline)
        } else {
            self.deadline
        };
        tokio::select! {
            changed = self.wake.changed() => self.over = changed.is_err(),
            () = self.closing.close_requested(&self.caller, &self.resource.plural) => self.over = true,
            () = tokio::time::sleep_until(quiet) => {
                if Instant::now() >= self.deadline {
                    self.over = true;
                } else {
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    self.send_bookmark(false);
                }
            }
        }
    }

    fn take_changes(&mut self) {
        match self
            .core
            .store
            .changes_after(&self.resource.storage, self.cursor, BATCH)
        {
            Ok((changes, complete)) => {
                for change in changes {
                    if let Some(event) = self.event_for(&change) {
                        self.ready.push_back(event);
                    }
                }
                self.cursor = complete;
            }
            Err(expired) => {
                let error = ApiError::too_old(self.cursor, expired.oldest);
                if let ErrorBody::Status(status) = error.body {
                    self.ready
                        .push_back(Ready::Text(line(&json!({"type": "ERROR", "object": status}))));
                }
                self.over = true;
            }
        }
    }

    /// The event of this watch for a change: objects enter and leave its selection.
    fn event_for(&mut self, change: &Change) -> Option<Ready> {
        if !self.namespace.is_empty() && change.key.namespace != self.namespace {
            return None;
        }
        let was = change
            .previous
            .as_ref()
            .is_some_and(|object| self.selector.matches(object));
        let is = change.kind != ChangeKind::Deleted && self.selector.matches(&change.object);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(self.event("ADDED", &change.object)),
            (true, true) => Some(self.event("MODIFIED", &change.object)),
            (true, false) if change.kind == ChangeKind::Deleted => {
                Some(self.event("DELETED", &change.object))
            }
            (true, false) => {
                // The object left the selection: send its last state in it, with the revision of the change.
                let mut last = change.previous.as_ref()?.value();
                crate::meta::set_metadata(&mut last, "resourceVersion", change.revision.to_string().into());
                Some(Ready::Text(self.value_event("DELETED", last)))
            }
        }
    }

    fn event(&mut self, kind: &'static str, object: &Object) -> Ready {
        if self.accept.view == View::Whole && respond::is_stored_so(&self.resource, object) {
            return Ready::Whole(kind, object.clone());
        }
        if self.accept.view == View::Metadata {
            let object = table::partial(&object.metadata());
            return Ready::Text(line(&json!({"type": kind, "object": object})));
        }
        Ready::Text(self.value_event(kind, object.value()))
    }

    fn value_event(&mut self, kind: &str, stored: Value) -> Bytes {
        let object = match self.accept.view {
            View::Whole => versions::presented(&self.resource, stored),
            View::Metadata => table::partial(&stored["metadata"]),
            View::Table => {
                let metadata = json!({"resourceVersion": crate::meta::resource_version(&stored)});
                let value = versions::presented(&self.resource, stored);
                let mut table = table::render(
                    &self.resource,
                    &[&value],
                    &metadata,
                    self.include,
                    self.core.clock.now(),
                );
                if std::mem::replace(&mut self.sent_columns, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
        };
        line(&json!({"type": kind, "object": object}))
    }

    fn send_bookmark(&mut self, initial_end: bool) {
        let mut object = json!({
            "kind": self.resource.kind, "apiVersion": self.resource.api_version(),
            "metadata": {"resourceVersion": self.cursor.to_string()},
        });
        if initial_end {
            object["metadata"]["annotations"] = json!({INITIAL_END: "true"});
        }
        let object = match self.accept.view {
            View::Whole => object,
            View::Metadata => table::partial(&object["metadata"]),
            View::Table => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
                "columnDefinitions": null, "rows": [],
            }),
        };
        self.ready
            .push_back(Ready::Text(line(&json!({"type": "BOOKMARK", "object": object}))));
    }
}

fn line(value: &Value) -> Bytes {
    let mut text = value.to_string();
    text.push('\n');
    text.into()
}
