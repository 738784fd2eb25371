//! A webhook server of a case, over TLS on loopback: its responses are scripted by path, its requests are recorded.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::Cx;

/// The path by which a case detects that its configuration is in effect.
const CANARY: &str = "/canary";

/// Response of a path.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// `response` of a review, to which the uid is added.
    Response(Value),
    /// This code and body.
    Raw(u16, String),
    /// No response, for longer than any timeout.
    Silence,
}

/// A response that allows the request.
pub(crate) fn allow() -> Answer {
    Answer::Response(json!({"allowed": true}))
}

/// A response that changes the object.
pub(crate) fn patch(operations: &Value) -> Answer {
    let patch = STANDARD.encode(operations.to_string());
    Answer::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// A response that denies the request with this status.
pub(crate) fn deny(status: Value) -> Answer {
    Answer::Response(json!({"allowed": false, "status": status}))
}

#[derive(Default)]
struct State {
    answers: HashMap<String, Answer>,
    requests: Vec<(String, Value)>,
}

/// A running server.
pub(crate) struct HookServer {
    pub address: SocketAddr,
    /// PEM in base64, as in configurations.
    pub authority: String,
    state: Arc<Mutex<State>>,
}

impl HookServer {
    pub(crate) async fn start() -> Self {
        Self::with_names(&["localhost"], 0).await
    }

    /// A server whose certificate is for these names and 127.0.0.1, valid for a year from `age_days` ago.
    pub(crate) async fn with_names(names: &[&str], age_days: i64) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params
            .subject_alt_names
            .push(SanType::IpAddress("127.0.0.1".parse().unwrap()));
        let day = Duration::from_hours(24);
        params.not_before = std::time::SystemTime::now().into();
        params.not_before -= day * u32::try_from(age_days + 1).unwrap();
        params.not_after = params.not_before + day * 365;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        tokio::spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            state.clone(),
        ));
        Self {
            address,
            authority: STANDARD.encode(authority.pem()),
            state,
        }
    }

    /// Sets the response of a path; the default is to allow.
    pub(crate) fn answers(&self, path: &str, answer: Answer) {
        self.state.lock().answers.insert(path.to_owned(), answer);
    }

    /// The requests that a path received, without those of the canary.
    pub(crate) fn review_requests(&self, path: &str) -> Vec<Value> {
        let state = self.state.lock();
        let requests = state.requests.iter().filter(|(own, _)| own == path);
        requests.map(|(_, review)| review["request"].clone()).collect()
    }

    /// The paths that were called since the last call, in order.
    pub(crate) fn take_paths(&self) -> Vec<String> {
        let mut state = self.state.lock();
        let requests = std::mem::take(&mut state.requests);
        let paths = requests.into_iter().map(|(path, _)| path);
        paths.filter(|path| path != CANARY).collect()
    }

    /// `clientConfig` of a path of this server.
    pub(crate) fn config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": self.authority})
    }

    /// A webhook for ConfigMaps of the case's namespace at `path`; `more` replaces its fields.
    pub(crate) fn hook(&self, cx: &Cx, path: &str, more: Value) -> Value {
        let mut hook = json!({
            "name": format!("{}.{}.example", path.trim_matches('/'), cx.id),
            "clientConfig": self.config(path),
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cx.ns}},
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
        });
        for (field, value) in more.as_object().unwrap() {
            hook[field] = value.clone();
        }
        hook
    }

    /// Creates a configuration of these webhooks, and waits until it is in effect.
    pub(crate) async fn configure(&self, cx: &Cx, kind: Kind, name: &str, hooks: &[Value]) -> Value {
        cx.until_namespace_is_complete().await;
        let canary = self.hook(
            cx,
            CANARY,
            json!({"name": format!("canary-{name}.{}.example", cx.id), "failurePolicy": "Ignore",
                "objectSelector": {"matchLabels": {"canary": name}}}),
        );
        let all: Vec<&Value> = hooks.iter().chain([&canary]).collect();
        let body = json!({
            "metadata": {"name": format!("{}-{name}", cx.id)}, "webhooks": all,
        });
        let made = cx.post(kind.path(), &body).await.is(201);
        let probe = json!({"metadata": {"name": "canary", "labels": {"canary": name}}});
        let path = format!("{}?dryRun=All", cx.cm());
        cx.until("the webhooks are in force", || async {
            let before = self.review_requests(CANARY).len();
            cx.post(&path, &probe).await;
            self.review_requests(CANARY).len() > before
        })
        .await;
        self.take_paths();
        made
    }
}

/// The two kinds of configurations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Mutating => "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            Self::Validating => "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        }
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<Mutex<State>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, state) = (acceptor.clone(), state.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return; // a client that does not trust the certificate
            };
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let state = state.clone();
                async move { Ok::<_, Infallible>(respond(&state, request).await) }
            });
            // A client that disconnects is not an error of the server.
            let _gone = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn respond(
    state: &Mutex<State>,
    request: http::Request<hyper::body::Incoming>,
) -> http::Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let uid = review["request"]["uid"].clone();
    let api_version = review["apiVersion"].clone();
    let answer = {
        let mut state = state.lock();
        state.requests.push((path.clone(), review));
        state.answers.get(&path).cloned()
    };
    let (code, text) = match answer.unwrap_or_else(allow) {
        Answer::Response(mut response) => {
            if response["uid"].is_null() {
                response["uid"] = uid;
            }
            let review = json!({"kind": "AdmissionReview", "apiVersion": api_version, "response": response});
            (200, review.to_string())
        }
        Answer::Raw(code, text) => (code, text),
        Answer::Silence => std::future::pending().await,
    };
    http::Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(Full::from(text))
        .unwrap()
}
