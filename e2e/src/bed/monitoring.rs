//! The host that serves gate queries and receives notifications: responses by path, on paused time without a socket.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use axum::{
    Router,
    extract::{Request, State},
    http::header::AUTHORIZATION,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use muster_controllers::gates::{Ask, Fetch, FetchError, Login};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::Ground;

/// The host on paused time.
const HOST: &str = "prometheus.example.com";
/// The path of notifications.
const NOTIFIED: &str = "/notified";

/// A Prometheus with configured answers.
pub struct Monitoring {
    host: String,
    scheme: &'static str,
    state: Shared,
    _server: Option<AbortOnDropHandle<()>>,
}

type Shared = Arc<Mutex<MonitoringState>>;

#[derive(Default)]
struct MonitoringState {
    answers: BTreeMap<String, String>,
    /// By path, the bearer token of each query.
    tokens: BTreeMap<String, Vec<Option<String>>>,
}

impl Monitoring {
    /// A host that answers no queries yet.
    pub(super) async fn new(ground: Ground) -> Self {
        let state = Shared::default();
        state.lock().answers.insert(NOTIFIED.to_owned(), "{}".to_owned());
        match ground {
            Ground::Virtual => Self {
                host: HOST.to_owned(),
                scheme: "https",
                state,
                _server: None,
            },
            Ground::Wire | Ground::Real | Ground::Flux => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let host = listener.local_addr().unwrap().to_string();
                let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
                let server = async move { axum::serve(listener, router).await.unwrap() };
                Self {
                    host,
                    scheme: "http",
                    state,
                    _server: Some(AbortOnDropHandle::new(tokio::spawn(server))),
                }
            }
        }
    }

    /// The host as `--gate-hosts` names it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The URL of an instant query whose answers are set under `name`.
    pub fn url(&self, name: &str) -> String {
        format!("{}://{}/{name}/api/v1/query?query=up", self.scheme, self.host)
    }

    /// Sets the value of the query; before the first call, the query never answers.
    pub fn set_answer(&self, name: &str, value: &str) {
        let series = json!({"metric": {"job": "web"}, "value": [1_767_225_600.781, value]});
        let data = json!({"resultType": "vector", "result": [series]});
        let answer = json!({"status": "success", "data": data}).to_string();
        self.state
            .lock()
            .answers
            .insert(format!("/{name}/api/v1/query"), answer);
    }

    /// The tokens of all queries, in order.
    pub fn query_tokens(&self, name: &str) -> Vec<Option<String>> {
        let asked = self
            .state
            .lock()
            .tokens
            .get(&format!("/{name}/api/v1/query"))
            .cloned();
        asked.unwrap_or_default()
    }

    /// The HTTP client for processes on paused time.
    pub(super) fn fetch(&self) -> Arc<dyn Fetch> {
        Arc::new(InProcess(Arc::clone(&self.state)))
    }
}

/// The receivers for `--notify-config`: this host alone.
pub(crate) fn receivers(host: &str) -> String {
    format!("receivers: [{{name: host, kind: webhook, url: 'http://{host}{NOTIFIED}'}}]\n")
}

/// Answers a query. One without a configured answer hangs; the client times out.
async fn answer_query(state: &Shared, path: &str, token: Option<String>) -> String {
    let answer = {
        let mut state = state.lock();
        state.tokens.entry(path.to_owned()).or_default().push(token);
        state.answers.get(path).cloned()
    };
    match answer {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}

async fn answer(State(state): State<Shared>, request: Request) -> Response {
    let token = request.headers().get(AUTHORIZATION);
    let token = token.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let token = token.map(str::to_owned);
    answer_query(&state, request.uri().path(), token)
        .await
        .into_response()
}

struct InProcess(Shared);

#[async_trait]
impl Fetch for InProcess {
    async fn get(&self, ask: &Ask) -> Result<Bytes, FetchError> {
        let token = match &ask.credentials.login {
            Some(Login::Bearer(token)) => Some(token.clone()),
            Some(Login::Basic(..)) | None => None,
        };
        Ok(answer_query(&self.0, ask.url.path(), token).await.into())
    }
}
