//! A host that accepts messages in the protocols of Slack, GitHub, GitLab and a webhook, and keeps the requests.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::Instant};
use tokio_util::task::AbortOnDropHandle;

/// How long a message may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// A received request.
#[allow(dead_code, reason = "each of two test binaries uses some of it")]
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub text: String,
    pub body: Value,
}

#[derive(Default)]
struct Memory {
    received: Vec<ReceivedRequest>,
    /// The next responses by path, in place of the usual one.
    next: BTreeMap<String, VecDeque<u16>>,
    posts: u32,
}

/// The simulated host.
#[allow(dead_code, reason = "each of two test binaries uses some of it")]
pub(crate) struct Host {
    pub address: SocketAddr,
    memory: Arc<Mutex<Memory>>,
    _serving: AbortOnDropHandle<()>,
}

#[allow(dead_code, reason = "each of two test binaries uses some of it")]
impl Host {
    pub(crate) async fn new() -> Self {
        let memory = Arc::<Mutex<Memory>>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&memory));
        let serving = async move { axum::serve(listener, router).await.unwrap() };
        Self {
            address,
            memory,
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        }
    }

    /// The next request to a path gets this response; 429 asks to wait for an hour.
    pub(crate) fn answers(&self, path: &str, status: u16) {
        let mut memory = self.memory.lock();
        memory.next.entry(path.to_owned()).or_default().push_back(status);
    }

    /// The requests to paths with this prefix.
    pub(crate) fn received_requests(&self, path: &str) -> Vec<ReceivedRequest> {
        let received = &self.memory.lock().received;
        received
            .iter()
            .filter(|request| request.path.starts_with(path))
            .cloned()
            .collect()
    }

    /// Waits until the last request meets a condition.
    pub(crate) async fn until_last(&self, path: &str, holds: impl Fn(&Value) -> bool) {
        let begin = Instant::now();
        while !self
            .received_requests(path)
            .last()
            .is_some_and(|last| holds(&last.body))
        {
            assert!(
                begin.elapsed() < PATIENCE,
                "{path}: only {:#?}",
                self.received_requests(path)
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until this number of requests arrived.
    pub(crate) async fn until(&self, path: &str, count: usize) -> Vec<ReceivedRequest> {
        let begin = Instant::now();
        loop {
            let received = self.received_requests(path);
            if received.len() >= count {
                assert_eq!(received.len(), count, "{path}: {received:#?}");
                return received;
            }
            assert!(begin.elapsed() < PATIENCE, "{path}: only {received:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn answer(State(memory): State<Arc<Mutex<Memory>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let headers = parts.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let (next, ts) = {
        let mut memory = memory.lock();
        memory.received.push(ReceivedRequest {
            path: path.clone(),
            headers: headers.collect(),
            body: serde_json::from_str(&text).unwrap(),
            text: text.clone(),
        });
        memory.posts += 1;
        let next = memory.next.get_mut(&path).and_then(VecDeque::pop_front);
        (next, format!("17.{}", memory.posts))
    };
    if path == "/silent" {
        std::future::pending::<()>().await;
    }
    if let Some(status) = next {
        let status = StatusCode::from_u16(status).unwrap();
        if status == StatusCode::TOO_MANY_REQUESTS {
            return (status, [(RETRY_AFTER, "3600")]).into_response();
        }
        return (status, "no").into_response();
    }
    let message: Value = serde_json::from_str(&text).unwrap();
    let answer = match path.as_str() {
        "/slack/chat.postMessage" => json!({"ok": true, "channel": "C1", "ts": ts}),
        "/slack/chat.update" => json!({"ok": true, "channel": message["channel"], "ts": message["ts"]}),
        _ => json!({}),
    };
    (StatusCode::OK, answer.to_string()).into_response()
}
