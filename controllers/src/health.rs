//! Whether a process is alive and ready, and the endpoint that reports it.
//!
//! A controller that ends ends its process (see [`crate::process`]), so a process that answers at all has running watch
//! loops. What remains to detect is a process that considers itself the leader and cannot renew its lease, and caches
//! that are not synced.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tracing::{debug, warn};

use crate::{lease::Leadership, metrics::Metrics};

/// Concurrent connections: probes and a scraper or two; more wait.
const CONNECTIONS: usize = 16;
/// How long a request may take to arrive. A probe of the kubelet waits for a second.
const HEAD_DEADLINE: Duration = Duration::from_secs(2);
/// How long a connection may live: one request, one response.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(15);
/// The pause after a connection could not be accepted, for example because file descriptors ran out.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// How long a process may exist after its right to act has ended: it ends itself at once, if it can.
const PATIENCE: Duration = Duration::from_secs(20);
/// The `Content-Type` of `/metrics`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The state of a process. Clones share it.
#[derive(Clone, Debug)]
pub struct Health {
    metrics: Metrics,
    acting: Arc<Mutex<Acting>>,
    /// Whether it serves requests before it acts, too.
    serves_on_standby: bool,
}

#[derive(Debug)]
enum Acting {
    /// It waits for its lease.
    Standby,
    /// It acts, with the leadership of its lease if it needs one.
    Acts(Option<Leadership>),
}

impl Health {
    /// The state of a process that does not act yet.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            acting: Arc::new(Mutex::new(Acting::Standby)),
            serves_on_standby: false,
        }
    }

    /// The same, for a process that is ready only when its caches are synced, even on standby.
    #[must_use]
    pub fn ready_when_synced(self) -> Self {
        Self {
            serves_on_standby: true,
            ..self
        }
    }

    /// Marks the process as acting.
    pub fn acts(&self, leadership: Option<Leadership>) {
        *self.acting.lock() = Acting::Acts(leadership);
        self.metrics.leads(true);
    }

    /// Whether the process needs no restart; the error is why it does.
    pub fn alive(&self) -> Result<(), String> {
        let Acting::Acts(Some(leadership)) = &*self.acting.lock() else {
            return Ok(());
        };
        match leadership.over_since() {
            Some(over) if over > PATIENCE => Err(format!(
                "the right to act ended {} s ago, and the process is still running",
                over.as_secs()
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the process is ready: it waits for the lease, or its caches are synced. The error is what is missing.
    pub fn ready(&self) -> Result<(), String> {
        self.alive()?;
        let not_synced = match &*self.acting.lock() {
            Acting::Standby if !self.serves_on_standby => Vec::new(),
            Acting::Standby | Acting::Acts(_) => self.metrics.not_synced(),
        };
        if not_synced.is_empty() {
            return Ok(());
        }
        Err(format!("not synced yet: {}", not_synced.join(", ")))
    }

    /// Serves `/metrics`, `/healthz` and `/readyz` until it is dropped.
    pub async fn serve(self, door: TcpListener) {
        let mut connections = JoinSet::new();
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // Never closed: the error is unreachable, and would only remove the bound.
            let place = Arc::clone(&free).acquire_owned().await.ok();
            tokio::select! {
                accepted = door.accept() => match accepted {
                    Ok((stream, _)) => {
                        let health = self.clone();
                        connections.spawn(async move {
                            health.converse(stream).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        warn!(%error, "a connection to the metrics endpoint could not be accepted");
                        tokio::time::sleep(AFTER_REFUSAL).await;
                    }
                },
                Some(_ended) = connections.join_next() => {}
            }
        }
    }

    async fn converse(self, stream: TcpStream) {
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = self.answer(request.method(), request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_DEADLINE)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        match tokio::time::timeout(CONNECTION_DEADLINE, connection).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "a connection to the metrics endpoint failed"),
            Err(_elapsed) => debug!("a connection to the metrics endpoint took too long"),
        }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        }
        match path {
            "/healthz" => verdict(self.alive()),
            // The second path is the one of rollout-operator.
            "/readyz" | "/ready" => verdict(self.ready()),
            "/metrics" => match self.metrics.scrape() {
                Ok(metrics) => typed(StatusCode::OK, OPEN_METRICS, metrics),
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            },
            _ => text(
                StatusCode::NOT_FOUND,
                "available: /metrics, /healthz and /readyz\n".to_owned(),
            ),
        }
    }
}

fn verdict(verdict: Result<(), String>) -> Response<Full<Bytes>> {
    match verdict {
        Ok(()) => text(StatusCode::OK, "ok\n".to_owned()),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", body)
}

fn typed(status: StatusCode, content: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let content = header::HeaderValue::from_static(content);
    response.headers_mut().insert(header::CONTENT_TYPE, content);
    response
}
