//! Changes of a page, as server-sent events.
//!
//! The id of a message is the [version](crate::page::Page::version) of the page after it, a hash of its content. A
//! window sends the version that it has (`have`, then `Last-Event-ID`): if it is current, nothing is sent, else all
//! parts once. So an interrupted stream loses nothing, whichever replica serves the next request, and no state is kept
//! for it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderName, StatusCode, Uri, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, stream};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::Instant,
};

use super::{Shared, assets, query};
use crate::{
    PageLocation, Snapshot,
    page::{Page, Request, changes},
};

/// Makes nginx forward each message at once.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// How soon a window reconnects after its stream was interrupted.
const RETRY: Duration = Duration::from_secs(1);

/// Streams the changes of a page.
pub(super) async fn follow(
    State(shared): State<Shared>,
    uri: Uri,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let path = uri.path().strip_prefix("/events/").unwrap_or_default();
    let Some(place) = PageLocation::parse(path) else {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    };
    let Ok(permit) = Arc::clone(&shared.0.streams).try_acquire_owned() else {
        // Closes the connection, so that it takes no connection slot.
        let headers = [(header::RETRY_AFTER, "10"), (header::CONNECTION, "close")];
        let why = "too many live pages: retry later, or reload manually\n";
        return (StatusCode::SERVICE_UNAVAILABLE, headers, why).into_response();
    };
    let query = query.unwrap_or_default();
    let last_event_id = headers.get("last-event-id").and_then(|id| id.to_str().ok()); // not valid text: not an id of this server
    let have = last_event_id
        .map(str::to_owned)
        .or_else(|| query::value(&query, "have"));
    let is_of_this_build =
        query::value(&query, "build").is_none_or(|build| build == assets::addresses().build);
    let beat = shared.0.limits.beat;
    let follower = Follower {
        snapshots: shared.0.snapshots.clone(),
        request: query::request(place, &query),
        have,
        shown: None,
        is_of_this_build,
        last: None,
        until: Instant::now() + shared.0.limits.life,
        shared,
        _permit: permit,
    };
    let keep_alive = KeepAlive::new()
        .interval(beat)
        .event(Event::default().event("beat").data("1"));
    let headers = [(header::CACHE_CONTROL, "no-store"), (ACCEL_BUFFERING, "no")];
    (headers, Sse::new(follower.messages()).keep_alive(keep_alive)).into_response()
}

/// A window that follows a page.
struct Follower {
    shared: Shared,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    request: Request,
    /// The version that the window reports to have.
    have: Option<String>,
    /// The page that was last sent.
    shown: Option<Arc<Page>>,
    is_of_this_build: bool,
    /// When the last message was sent.
    last: Option<Instant>,
    until: Instant,
    /// Its slot among the streams.
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    fn messages(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut follower| async move {
            let until = follower.until;
            let message = tokio::time::timeout_at(until, follower.next()).await;
            let message = message.ok().flatten()?; // end of its lifetime: the browser reconnects
            Some((Ok(message), follower))
        })
    }

    /// Waits for the next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(last) = self.last {
                tokio::time::sleep_until(last + self.shared.0.limits.pace).await;
            }
            let is_first = self.shown.is_none();
            if is_first {
                self.snapshots.mark_changed();
            }
            self.snapshots.changed().await.ok()?; // no more snapshots: the process is shutting down
            if !self.is_of_this_build {
                self.is_of_this_build = true;
                return Some(Event::default().event("reload").data("1").retry(RETRY));
            }
            let (_, page) = self.shared.page(&self.request);
            let old = self.shown.replace(Arc::clone(&page));
            let version = page.version();
            let is_known = is_first && self.have.take().as_deref() == Some(&*version);
            let changes = if is_known {
                Vec::new()
            } else {
                changes(old.as_deref(), &page)
            };
            if changes.is_empty() && !is_first {
                continue;
            }
            self.last = Some(Instant::now());
            let data = serde_json::to_string(&changes).ok()?; // strings always serialize
            return Some(
                Event::default()
                    .event("patch")
                    .id(version)
                    .data(data)
                    .retry(RETRY),
            );
        }
    }
}
