//! The HTTPS listener: HTTP/1.1 and HTTP/2 over TLS on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{Credentials, CredentialsError};
use crate::core::Core;
use crate::http::{Body, BodyError, full};
use crate::status::{ApiError, ErrorBody};

/// The listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The certificate could not be created.
    #[error("the server certificate could not be created")]
    Credentials(#[from] CredentialsError),
    /// The TLS library rejects the configuration.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The verifier of client certificates could not be created.
    #[error("client certificates cannot be verified")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The port could not be bound.
    #[error("cannot listen on 127.0.0.1:{port}; is the port in use?")]
    Bind {
        /// The requested port; 0 is any.
        port: u16,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
}

/// An open listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// Address of the listener.
    pub address: SocketAddr,
}

/// Timeout of a TLS handshake: long enough for a loaded machine, but finite for a silent client.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Opens the listener; the future serves it. Dropping the future closes all connections.
pub(crate) async fn open_https(
    core: Arc<Core>,
    credentials: Arc<Credentials>,
    port: u16,
) -> Result<(Listener, impl Future<Output = ()> + Send + 'static), ListenError> {
    let acceptor = TlsAcceptor::from(Arc::new(tls(&credentials)?));
    let failed = |source| ListenError::Bind { port, source };
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .map_err(failed)?;
    let listener = Listener {
        address: socket.local_addr().map_err(failed)?,
    };
    Ok((listener, accept(socket, acceptor, core, credentials)))
}

fn tls(credentials: &Credentials) -> Result<rustls::ServerConfig, ListenError> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(credentials.authority_der())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let (certificate, key) = credentials.server()?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate, credentials.authority_der()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn accept(socket: TcpListener, acceptor: TlsAcceptor, core: Arc<Core>, credentials: Arc<Credentials>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, acceptor.clone(), core.clone(), credentials.clone()));
                }
                Err(error) => {
                    // For example out of file descriptors: the next connection may succeed.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, core: Arc<Core>, credentials: Arc<Credentials>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY is not set: small responses may be delayed");
    }
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates
        .and_then(|chain| chain.first())
        .map(|certificate| certificate.to_vec());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (core, credentials, certificate) = (core.clone(), credentials.clone(), certificate.clone());
        async move { admit(&core, &credentials, certificate.as_deref(), request).await }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error, "a connection ended");
    }
}

/// Accepts a request with a known credential. Health checks need none.
async fn admit(
    core: &Arc<Core>,
    credentials: &Credentials,
    certificate: Option<&[u8]>,
    request: Request<Incoming>,
) -> Result<Response<Body>, BodyError> {
    let bearer = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()); // not valid text: no token
    let token = bearer.and_then(|value| value.strip_prefix("Bearer "));
    let user = match token {
        Some(token) => credentials.user_of_token(token.trim()),
        None => certificate.and_then(|certificate| credentials.user_of_certificate(certificate)),
    };
    let is_public = matches!(
        request.uri().path(),
        "/healthz" | "/livez" | "/readyz" | "/version"
    );
    match user {
        Some(user) => core.handle(&user, request).await,
        None if is_public && token.is_none() => core.handle("system:anonymous", request).await,
        None => Ok(unauthorized()),
    }
}

fn unauthorized() -> Response<Body> {
    let error = ApiError::unauthorized();
    let text = match error.body {
        ErrorBody::Status(status) => status.to_string(),
        ErrorBody::Text(text) => text.to_owned(),
    };
    let mut response = Response::new(full(text));
    *response.status_mut() = http::StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}
