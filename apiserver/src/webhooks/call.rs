//! One webhook call: HTTPS with the webhook's own certificate authority, and failures with the messages of the real
//! server.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt as _;

use super::hook::Hook;
use super::resolve::{self, Endpoint, ResolvedEndpoint, Resolver};
use crate::store::Store;

/// Maximum size of a response: the same as for a request body.
const ANSWER_LIMIT: usize = 3 << 20;

/// Default port of a URL.
const HTTPS: u16 = 443;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Address of a webhook.
struct Target {
    /// Name for which the certificate is checked.
    server_name: String,
    /// Value of the `Host` header, including the port.
    host: String,
    /// Path, with the timeout in the query.
    path: String,
    found: Result<ResolvedEndpoint, String>,
}

/// Sends a request and returns the body of a successful response.
pub(crate) async fn send_review(
    store: &Store,
    resolver: Option<&Resolver>,
    hook: &Hook,
    question: Vec<u8>,
) -> Result<Bytes, String> {
    let target = target(store, resolver, hook)?;
    let url = format!("https://{}{}", target.host, target.path);
    let in_time = Duration::from_secs(hook.timeout_seconds);
    let exchanged = match tokio::time::timeout(in_time, exchange(target, hook, &url, question)).await {
        Ok(exchanged) => exchanged,
        Err(_) => Err("context deadline exceeded".to_owned()),
    };
    let response = exchanged.map_err(|error| format!("failed to call webhook: Post {url:?}: {error}"))?;
    let code = response.status().as_u16();
    if (200..=206).contains(&code) {
        return Ok(response.into_body());
    }
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let is_text = content_type.is_none_or(|kind| kind.as_bytes().starts_with(b"text/"));
    let text = String::from_utf8_lossy(response.body());
    let text = if is_text { text.trim() } else { "unknown" };
    Err(format!("failed to call webhook: {}", unsuccessful(code, text)))
}

fn target(store: &Store, resolver: Option<&Resolver>, hook: &Hook) -> Result<Target, String> {
    let config = &hook.client_config;
    let path = |path: &str| format!("/{}?timeout={}s", path.trim_matches('/'), hook.timeout_seconds);
    if let Some(service) = &config.service {
        let server_name = format!("{}.{}.svc", service.name, service.namespace);
        return Ok(Target {
            host: format!("{server_name}:{}", service.port),
            server_name,
            path: path(service.path.as_deref().unwrap_or_default()), // absent means the root
            found: resolve::resolve_service(store, resolver, service),
        });
    }
    let url = config.url.as_deref().unwrap_or_default(); // one of the two is required
    let uri: Uri = url
        .parse()
        .map_err(|error| format!("could not get REST client: Unparsable URL: {error}"))?;
    let host = uri.host().unwrap_or_default(); // required
    let port = uri.port_u16().unwrap_or(HTTPS);
    Ok(Target {
        server_name: host.trim_matches(['[', ']']).to_owned(),
        host: uri.authority().map(ToString::to_string).unwrap_or_default(), // required
        path: path(uri.path()),
        found: Ok(ResolvedEndpoint::Host(format!("{host}:{port}"))),
    })
}

async fn exchange(
    target: Target,
    hook: &Hook,
    url: &str,
    question: Vec<u8>,
) -> Result<Response<Bytes>, String> {
    let endpoint = target.found?;
    let uri = match endpoint {
        ResolvedEndpoint::Endpoint(Endpoint::InProcess(_)) => url,
        _ => &target.path,
    };
    let request = Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(header::HOST, &target.host)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Bytes::from(question))
        .map_err(|error| error.to_string())?;
    let stream = match endpoint {
        ResolvedEndpoint::Endpoint(Endpoint::InProcess(service)) => {
            return service.oneshot(request).await.map_err(|error| error.to_string());
        }
        ResolvedEndpoint::Endpoint(Endpoint::Address(address)) => connect(address.to_string()).await?,
        ResolvedEndpoint::Host(host) => connect(host).await?,
    };
    let config = trust(hook).map_err(|error| error.to_string())?;
    let name = ServerName::try_from(target.server_name).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .map_err(|error| refused(&error))?;
    over(TokioIo::new(stream), request)
        .await
        .map_err(|error| error.to_string())
}

async fn connect(host: String) -> Result<TcpStream, String> {
    TcpStream::connect(&host).await.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {host}: {why}")
    })
}

/// TLS configuration that trusts only the certificate authorities of the webhook.
fn trust(hook: &Hook) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    let bundle = hook.client_config.ca_bundle.as_deref().unwrap_or_default(); // none: nothing is trusted
    for certificate in CertificateDer::pem_slice_iter(&STANDARD.decode(bundle)?) {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Why a TLS handshake failed, with the message of the real server for common cases.
fn refused(error: &std::io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match inner {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => "x509: certificate signed by unknown authority".to_owned(),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => "x509: certificate has expired or is not yet valid".to_owned(),
        Some(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            expected,
            presented,
        })) => {
            let presented: Vec<&str> = presented.iter().map(|name| inside(name)).collect();
            let expected = expected.to_str();
            format!(
                "x509: certificate is valid for {}, not {expected}",
                presented.join(", ")
            )
        }
        Some(other) => other.to_string(),
        None => return error.to_string(),
    };
    format!("tls: failed to verify certificate: {why}")
}

/// Extracts `a.b` from `DnsName("a.b")`.
fn inside(name: &str) -> &str {
    name.split('"').nth(1).unwrap_or(name)
}

async fn over(
    stream: impl hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, Failure> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let exchanged = async {
        let (parts, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
        let body = Limited::new(body, ANSWER_LIMIT).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    };
    let answer = exchanged.await;
    connection.abort(); // one request per connection
    answer
}

/// The message of the real server's client library for a response with this code.
fn unsuccessful(code: u16, message: &str) -> String {
    let text = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => message,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            return format!("an error on the server ({message:?}) has prevented the request from succeeding");
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    text.to_owned()
}
