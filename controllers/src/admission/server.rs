//! The HTTPS server: one request, one response, each with a time limit. It knows no particular webhook.
//!
//! Invariant: a certificate is replaced without closing connections: later handshakes use the new one. Invariant: no
//! request costs more than a connection: connections, headers, bodies and responses have limits.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::runtime::Shutdown;

/// Open connections at most; more wait. API servers keep one for each of their clients and webhooks.
const CONNECTIONS: usize = 256;
/// How long a handshake or the headers of a request may take.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// The maximum size of a request in bytes: an API server accepts objects of 3 MiB, and a review has two of them.
pub const MAX_BODY: usize = 8 << 20;
/// The pause after a connection could not be accepted, for example because file descriptors ran out.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// A request: the parts that webhooks read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookRequest {
    /// The HTTP method.
    pub method: http::Method,
    /// The path of the URL.
    pub path: String,
    /// `Content-Type`; empty if the header is absent.
    pub content_type: String,
    /// The request body.
    pub body: Bytes,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The response body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A response of one line of text.
    pub fn text(status: StatusCode, text: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{text}\n").into_bytes(),
        }
    }
}

/// A handler of requests.
pub type Answers = Arc<dyn Fn(WebhookRequest) -> BoxFuture<'static, Answer> + Send + Sync>;

/// A certificate cannot be served.
#[derive(Debug, Error)]
pub enum ShownError {
    /// The certificate cannot be parsed.
    #[error("the certificate is not a PEM certificate")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// The private key cannot be parsed.
    #[error("the private key is not a PEM private key")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// The certificate and the key do not match, or use an unsupported algorithm.
    #[error("the certificate and the private key do not match")]
    Pair(#[source] rustls::Error),
}

/// A certificate (with its chain) and its key (PEM), ready to be served.
pub fn certified_key(certificate: &str, key: &str) -> Result<CertifiedKey, ShownError> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(ShownError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(ShownError::Key)?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(ShownError::Pair)
}

/// The served certificate, if there is one yet. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shown(watch::Sender<Option<Arc<CertifiedKey>>>);

impl Shown {
    /// Serves this one instead.
    pub fn change(&self, certificate: CertifiedKey) {
        self.0.send_replace(Some(Arc::new(certificate)));
    }

    /// Waits until there is a certificate.
    pub async fn known(&self) {
        // The sender lives as long as `self`, so the error is unreachable.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().clone()
    }
}

/// The admission server.
pub struct Server {
    /// The address that it listens on.
    pub listener: TcpListener,
    /// The certificate that it serves.
    pub shown: Shown,
    /// The handler of requests.
    pub answers: Answers,
    /// How long a request may take, from its headers to the response.
    pub deadline: Duration,
    /// Ends the server; requests in flight are finished.
    pub shutdown: Shutdown,
}

impl Server {
    /// Serves until shutdown.
    pub async fn run(self) -> Result<(), rustls::Error> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.shown.clone()));
        let serving = Arc::new(Serving {
            tls: TlsAcceptor::from(Arc::new(config)),
            answers: self.answers,
            deadline: self.deadline,
            shutdown: self.shutdown.clone(),
        });
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            // Never closed: the error is unreachable, and would only remove the bound.
            let permit = Arc::clone(&free).acquire_owned().await.ok();
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let serving = Arc::clone(&serving);
                        connections.spawn(async move {
                            serving.converse(stream).await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        warn!(%error, "a connection to the admission server could not be accepted");
                        tokio::time::sleep(AFTER_REFUSAL).await;
                    }
                },
                Some(_ended) = connections.join_next() => {}
            }
        }
        while connections.join_next().await.is_some() {}
        Ok(())
    }
}

struct Serving {
    tls: TlsAcceptor,
    answers: Answers,
    deadline: Duration,
    shutdown: Shutdown,
}

impl Serving {
    async fn converse(self: Arc<Self>, stream: TcpStream) {
        let stream = match tokio::time::timeout(HEAD_DEADLINE, self.tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(%error, "a TLS handshake failed"),
            Err(_) => return debug!("a TLS handshake took too long"),
        };
        let serving = Arc::clone(&self);
        let service = service_fn(move |request| {
            let serving = Arc::clone(&serving);
            async move { Ok::<_, Infallible>(response(serving.answer(request).await)) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_DEADLINE)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "a connection to the admission server was lost");
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let answering = async {
            let (head, body) = request.into_parts();
            let body = match Limited::new(body, MAX_BODY).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) if error.is::<LengthLimitError>() => {
                    let text = format!("a review has at most {MAX_BODY} bytes");
                    return Answer::text(StatusCode::PAYLOAD_TOO_LARGE, &text);
                }
                Err(_) => return Answer::text(StatusCode::BAD_REQUEST, "the request is incomplete"),
            };
            let content_type = head.headers.get(header::CONTENT_TYPE);
            let content_type = content_type.and_then(|value| value.to_str().ok()); // ignored if not text
            (self.answers)(WebhookRequest {
                method: head.method,
                path: head.uri.path().to_owned(),
                content_type: content_type.unwrap_or_default().to_owned(),
                body,
            })
            .await
        };
        tokio::time::timeout(self.deadline, answering)
            .await
            .unwrap_or_else(|_| Answer::text(StatusCode::GATEWAY_TIMEOUT, "the review took too long"))
    }
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let content_type = header::HeaderValue::from_static(answer.content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
