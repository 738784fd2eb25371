//! Web servers on loopback: `git http-backend` behind axum, with or without TLS, and custom ones that misbehave.
//!
//! ```text
//! let server = GitServer::start(&directory_of_repositories, Door::Tls, None).await;
//! let url = server.url("name-of-directory");          // https://localhost:<port>/name-of-directory
//! let trust = server.ca_pem();                      // for `ca.crt`
//! ```

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode, header};
use axum::serve::Listener;
use futures::StreamExt as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::repo::ENVIRONMENT;

/// Maximum size of a request body.
const MAX_BODY: usize = 16 << 20;

/// How a server is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Plain,
    /// With a certificate for `localhost` and `git.test`, issued by an authority of this server.
    Tls,
    /// The same, and clients must present a certificate of that authority.
    Mutual,
}

/// A server that stops when it is dropped.
pub(crate) struct WebServer {
    origin: String,
    authority: Option<Authority>,
    task: JoinHandle<()>,
}

impl WebServer {
    /// Serves a custom router.
    pub(crate) async fn start(router: Router, door: Door) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        match door {
            Door::Plain => {
                let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
                Self {
                    origin: format!("http://127.0.0.1:{port}"),
                    authority: None,
                    task,
                }
            }
            Door::Tls | Door::Mutual => {
                let authority = Authority::new();
                let acceptor = authority.acceptor(door == Door::Mutual);
                let listener = TlsListener { listener, acceptor };
                let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
                Self {
                    origin: format!("https://localhost:{port}"),
                    authority: Some(authority),
                    task,
                }
            }
        }
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The authority of a TLS server.
    pub(crate) fn ca_pem(&self) -> Vec<u8> {
        self.authority.as_ref().unwrap().issuer.pem().into_bytes()
    }

    /// A client certificate, and its key.
    pub(crate) fn client_pem(&self) -> (Vec<u8>, Vec<u8>) {
        self.authority.as_ref().unwrap().client()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request that a [`GitServer`] has received.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    pub body: Bytes,
}

/// `git http-backend` for all repositories in one directory.
pub(crate) struct GitServer {
    web: WebServer,
    backend: Arc<Backend>,
}

/// How a server disturbs the packs that it sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tamper {
    None,
    /// The response ends after this many bytes, as if complete.
    Cut(usize),
    /// After this many bytes nothing is sent any more, and the connection stays open.
    Stall(usize),
    /// After this many bytes the connection breaks.
    Break(usize),
    /// One byte every 20 ms.
    Drip,
}

struct Backend {
    root: PathBuf,
    /// The only accepted value of `Authorization`.
    authorization: Mutex<Option<String>>,
    requests: Mutex<Vec<RecordedRequest>>,
    /// A path prefix, and its replacement.
    moved: Mutex<Option<(String, String)>>,
    tamper: Mutex<Tamper>,
    stalled: Notify,
    /// Size of the last pack in bytes.
    sent: AtomicUsize,
    /// Size of all responses in bytes.
    sent_in_all: AtomicUsize,
}

impl GitServer {
    pub(crate) async fn start(root: &Path, door: Door, authorization: Option<&str>) -> Self {
        Self::beside(Router::new(), root, door, authorization).await
    }

    /// With additional routes.
    pub(crate) async fn beside(others: Router, root: &Path, door: Door, authorization: Option<&str>) -> Self {
        let authorization = Mutex::new(authorization.map(str::to_owned));
        let backend = Arc::new(Backend {
            root: root.to_owned(),
            authorization,
            requests: Mutex::default(),
            moved: Mutex::default(),
            tamper: Mutex::new(Tamper::None),
            stalled: Notify::new(),
            sent: AtomicUsize::new(0),
            sent_in_all: AtomicUsize::new(0),
        });
        let router = Router::new()
            .fallback(serve)
            .with_state(Arc::clone(&backend))
            .merge(others);
        Self {
            web: WebServer::start(router, door).await,
            backend,
        }
    }

    /// The URL of a repository.
    pub(crate) fn url(&self, directory: &str) -> String {
        format!("{}/{directory}", self.web.origin())
    }

    /// The URL of a directory that redirects to another one on this host, as after a rename.
    pub(crate) fn moved(&self, from: &str, to: &str) -> String {
        let prefix = format!("/{from}/");
        *self.backend.moved.lock().unwrap() = Some((prefix, format!("/{to}/")));
        self.url(from)
    }

    pub(crate) fn ca_pem(&self) -> Vec<u8> {
        self.web.ca_pem()
    }

    pub(crate) fn client_pem(&self) -> (Vec<u8>, Vec<u8>) {
        self.web.client_pem()
    }

    /// Accepts only this value of `Authorization` from now on.
    pub(crate) fn lets_in(&self, authorization: &str) {
        *self.backend.authorization.lock().unwrap() = Some(authorization.to_owned());
    }

    /// Disturbs packs like this from now on.
    pub(crate) fn tamper(&self, tamper: Tamper) {
        *self.backend.tamper.lock().unwrap() = tamper;
    }

    /// Waits until a response has stalled since the last call.
    pub(crate) async fn stalled(&self) {
        self.backend.stalled.notified().await;
    }

    /// Size of the response with the last pack, in bytes.
    pub(crate) fn sent(&self) -> usize {
        self.backend.sent.load(Ordering::SeqCst)
    }

    /// Size of all responses so far, in bytes.
    pub(crate) fn sent_in_all(&self) -> usize {
        self.backend.sent_in_all.load(Ordering::SeqCst)
    }

    /// All requests so far.
    pub(crate) fn recorded_requests(&self) -> Vec<RecordedRequest> {
        self.backend.requests.lock().unwrap().clone()
    }
}

impl Backend {
    fn location(&self, uri: &axum::http::Uri) -> Option<String> {
        let (from, to) = self.moved.lock().unwrap().clone()?;
        let rest = uri.path_and_query()?.as_str().strip_prefix(&from)?.to_owned();
        Some(format!("{to}{rest}"))
    }
}

async fn serve(State(backend): State<Arc<Backend>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap();
    let authorization = parts
        .headers
        .get(header::AUTHORIZATION)
        .map(|value| value.to_str().unwrap().to_owned());
    backend.requests.lock().unwrap().push(RecordedRequest {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        authorization: authorization.clone(),
        body: body.clone(),
    });
    if let Some(location) = backend.location(&parts.uri) {
        let moved = Response::builder().status(StatusCode::MOVED_PERMANENTLY);
        return moved
            .header(header::LOCATION, location)
            .body(Body::empty())
            .unwrap();
    }
    let wanted = backend.authorization.lock().unwrap().clone();
    if wanted.is_some() && wanted != authorization {
        return Response::builder()
            .status(StatusCode::UNAUTHORIZED)
            .body(Body::empty())
            .unwrap();
    }
    let content_type = parts
        .headers
        .get(header::CONTENT_TYPE)
        .map(|value| value.to_str().unwrap().to_owned());
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .envs(ENVIRONMENT.iter().copied())
        .env("GIT_PROJECT_ROOT", &backend.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", content_type.unwrap_or_default())
        .env("CONTENT_LENGTH", body.len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // A backend that refuses the request does not read all of it.
    let _ = input.write_all(&body).await;
    drop(input);
    let has_pack = body.windows(4).any(|window| window == b"done");
    let output = child.wait_with_output().await.unwrap().stdout;
    answer(&output, &backend, has_pack)
}

/// Converts a CGI response to HTTP.
fn answer(output: &[u8], backend: &Arc<Backend>, has_pack: bool) -> Response<Body> {
    let end = output
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or(output.len());
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let mut response = Response::builder();
    for line in head.lines() {
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        response = if name.eq_ignore_ascii_case("status") {
            response.status(value.split(' ').next().unwrap().parse::<u16>().unwrap())
        } else {
            response.header(name, value)
        };
    }
    let body = output.get(end + 4..).unwrap_or_default().to_vec();
    backend.sent_in_all.fetch_add(body.len(), Ordering::SeqCst);
    if has_pack {
        backend.sent.store(body.len(), Ordering::SeqCst);
        response.body(tampered(body, backend)).unwrap()
    } else {
        response.body(Body::from(body)).unwrap()
    }
}

fn tampered(mut body: Vec<u8>, backend: &Arc<Backend>) -> Body {
    let tamper = *backend.tamper.lock().unwrap();
    if tamper == Tamper::Drip {
        let drops = futures::stream::iter(body).then(|byte| async move {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            Ok::<_, std::io::Error>(Bytes::from(vec![byte]))
        });
        return Body::from_stream(drops);
    }
    let (Tamper::Cut(at) | Tamper::Stall(at) | Tamper::Break(at)) = tamper else {
        return Body::from(body);
    };
    body.truncate(at);
    let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(body))]);
    match tamper {
        Tamper::Stall(_) => {
            let backend = Arc::clone(backend);
            let last = futures::stream::once(async move {
                backend.stalled.notify_one();
                std::future::pending().await
            });
            Body::from_stream(first.chain(last))
        }
        Tamper::Break(_) => {
            let broken = std::io::Error::other("broken");
            Body::from_stream(first.chain(futures::stream::iter([Err(broken)])))
        }
        _ => Body::from_stream(first),
    }
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    /// A client that aborts its handshake is ignored.
    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else {
                continue;
            };
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Issues certificates.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        }
    }

    /// A certificate for `localhost` and `git.test`; optionally requires client certificates of this authority.
    fn acceptor(&self, mutual: bool) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned(), "git.test".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if mutual {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let config = builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    fn client(&self) -> (Vec<u8>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
    }
}
