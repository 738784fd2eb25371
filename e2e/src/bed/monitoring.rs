//! The host that gates ask, and that is told of rollouts: answers by path, on paused time without a socket.

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
/// Where notifications go.
const NOTIFIED: &str = "/notified";

/// A Prometheus that says what it is told to.
pub struct Monitoring {
    host: String,
    scheme: &'static str,
    state: Shared,
    _server: Option<AbortOnDropHandle<()>>,
}

type Shared = Arc<Mutex<Told>>;

#[derive(Default)]
struct Told {
    answers: BTreeMap<String, String>,
    /// By path, the bearer token of each that asked.
    asked: BTreeMap<String, Vec<Option<String>>>,
}

impl Monitoring {
    /// It answers nobody yet.
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

    /// The address of an instant query whose answers are told under `name`.
    pub fn url(&self, name: &str) -> String {
        format!("{}://{}/{name}/api/v1/query?query=up", self.scheme, self.host)
    }

    /// From now on the query gives this value; until it was told anything, it never answers.
    pub fn says(&self, name: &str, value: &str) {
        let series = json!({"metric": {"job": "web"}, "value": [1_767_225_600.781, value]});
        let data = json!({"resultType": "vector", "result": [series]});
        let answer = json!({"status": "success", "data": data}).to_string();
        self.state
            .lock()
            .answers
            .insert(format!("/{name}/api/v1/query"), answer);
    }

    /// The tokens with which the query was asked, one for each time.
    pub fn asked(&self, name: &str) -> Vec<Option<String>> {
        let asked = self
            .state
            .lock()
            .asked
            .get(&format!("/{name}/api/v1/query"))
            .cloned();
        asked.unwrap_or_default()
    }

    /// How processes on paused time ask it.
    pub(super) fn fetch(&self) -> Arc<dyn Fetch> {
        Arc::new(InProcess(Arc::clone(&self.state)))
    }
}

/// The receivers of `--notify-config`: the host alone.
pub(crate) fn receivers(host: &str) -> String {
    format!("receivers: [{{name: host, kind: webhook, url: 'http://{host}{NOTIFIED}'}}]\n")
}

/// Whoever is asked for the first time answers when it was told what; whoever asked gives up before that.
async fn told(state: &Shared, path: &str, token: Option<String>) -> String {
    let answer = {
        let mut state = state.lock();
        state.asked.entry(path.to_owned()).or_default().push(token);
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
    told(&state, request.uri().path(), token).await.into_response()
}

struct InProcess(Shared);

#[async_trait]
impl Fetch for InProcess {
    async fn get(&self, ask: &Ask) -> Result<Bytes, FetchError> {
        let token = match &ask.credentials.login {
            Some(Login::Bearer(token)) => Some(token.clone()),
            Some(Login::Basic(..)) | None => None,
        };
        Ok(told(&self.0, ask.url.path(), token).await.into())
    }
}
