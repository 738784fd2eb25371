//! The dashboard as a web server: pages, their live streams, and the same data as JSON. It is read-only.
//!
//! ```text
//!   connection ─► host? ─► access?   ─► GET ─┬─ PLACE          a page              ─┐
//!   (bounded)                                ├─ events/PLACE   its changes          ├─► headers (content policy)
//!                                            ├─ api/v1/…       view models as JSON  │
//!                                            └─ assets/…       style and script    ─┘
//! ```
//!
//! Invariant: routes accept only GET and HEAD; anything else is 405. Invariant: connections, streams, header bytes and
//! times are bounded ([`Limits`]).

mod admission;
mod assets;
mod cache;
mod headers;
mod host;
mod json;
mod query;
mod serve;
mod stream;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{StatusCode, Uri, header},
    middleware,
    response::{Html, IntoResponse, Response},
    routing::get,
};
use tokio::sync::{Semaphore, watch};
use tower_http::compression::CompressionLayer;

pub use self::{
    admission::{Admission, Verdict},
    host::Hosts,
    serve::serve,
};
use self::{cache::Cache, headers::Guard};
use crate::{PageLocation, Snapshot, page};

/// Configuration of the server.
pub struct Setup {
    /// Snapshots of the fleet, as it changes.
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    /// Accepted host names.
    pub hosts: Hosts,
    /// Access control; `None` allows everyone who can connect.
    pub admission: Option<Arc<dyn Admission>>,
    /// Limits on concurrent requests.
    pub limits: Limits,
}

/// Limits of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of concurrent streams. Further ones must retry later.
    pub streams: usize,
    /// Minimum time between two messages on a stream.
    pub pace: Duration,
    /// Interval between heartbeats on a stream.
    pub beat: Duration,
    /// How long a stream lives before the browser must reconnect and be authorized again.
    pub life: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 256,
            pace: Duration::from_millis(200),
            beat: Duration::from_secs(15),
            life: Duration::from_mins(10),
        }
    }
}

/// State shared by all requests.
#[derive(Clone)]
struct Shared(Arc<Inner>);

struct Inner {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    cache: Cache,
    streams: Arc<Semaphore>,
    limits: Limits,
}

/// Builds the router.
pub fn router(setup: Setup) -> Router {
    let Setup {
        snapshots,
        hosts,
        admission,
        limits,
    } = setup;
    let shared = Shared(Arc::new(Inner {
        snapshots,
        cache: Cache::default(),
        streams: Arc::new(Semaphore::new(limits.streams)),
        limits,
    }));
    let guard = Arc::new(Guard::new(hosts, admission));
    Router::new()
        .route("/", get(show))
        .route("/{*place}", get(show))
        .route("/events/", get(stream::follow))
        .route("/events/{*place}", get(stream::follow))
        .route("/api/v1/{*what}", get(json::answer))
        .route("/assets/{file}", get(assets::asset))
        .with_state(shared)
        .layer(CompressionLayer::new().gzip(true))
        .layer(middleware::from_fn_with_state(guard, headers::guarded))
}

/// Serves a page.
async fn show(State(shared): State<Shared>, uri: Uri, RawQuery(query): RawQuery) -> Response {
    let path = uri.path().strip_prefix('/').unwrap_or_default();
    let Some(place) = PageLocation::parse(path) else {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    };
    let query = query.unwrap_or_default();
    let request = query::request(place, &query);
    let (snapshot, page) = shared.page(&request);
    let status = match (page.is_found, snapshot.is_complete) {
        (true, _) => StatusCode::OK,
        (false, true) => StatusCode::NOT_FOUND,
        (false, false) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let query = query::written(&request);
    let markup = page::render_document(&page, &request, &query, &snapshot, assets::addresses());
    let headers = [(header::CACHE_CONTROL, "no-store")];
    (status, headers, Html(markup.into_string())).into_response()
}

impl Shared {
    /// The current page for a request.
    fn page(&self, request: &page::Request) -> (Arc<Snapshot>, Arc<page::Page>) {
        let snapshot = Arc::clone(&self.0.snapshots.borrow());
        let page = self.0.cache.page(&snapshot, request);
        (snapshot, page)
    }
}
