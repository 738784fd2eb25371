//! One GET, within its limits. [`Fetch`] is the seam: [`Web`] queries real hosts, tests on paused time have a fake
//! host.

use std::sync::OnceLock;

use async_trait::async_trait;
use bytes::Bytes;
use muster_kit::body::{self, BodyError, cause};
use muster_sync::proxy::Proxies;
use reqwest::{Certificate, Client, ClientBuilder, Response, Url, header, redirect};
use thiserror::Error;

use super::credentials::{Credentials, Login};

/// The maximum size of a response in bytes. Prometheus writes some 150 for a series: this has room for 400 of them, and
/// a gate needs one. At most sixty-four responses are read at once, of which at most as many as there are threads are
/// parsed, each into twenty times its length: 4 MiB and some.
pub const MAX_ANSWER: usize = 64 * 1024;

/// A request to a host.
#[derive(Clone)]
pub struct Ask {
    /// The URL. Its host is allowed.
    pub url: Url,
    /// The credentials to use, if any.
    pub credentials: Credentials,
}

/// Why there is no response. Contains nothing from the credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FetchError {
    /// The host redirects.
    #[error("the host redirects to {0}; redirects are not followed: set the final URL")]
    Redirect(String),
    /// The status is not 200.
    #[error("the host answered {0}")]
    Status(u16),
    /// The response is too long.
    #[error("the response is longer than {} KiB", MAX_ANSWER / 1024)]
    TooLong,
    /// The connection failed, or broke.
    #[error("the host cannot be reached: {0}")]
    Unreachable(String),
    /// A certificate authority that cannot be parsed.
    #[error("key \"ca.crt\" of its Secret has no PEM certificate")]
    Authorities,
    /// The TLS client could not be set up.
    #[error("TLS could not be set up: {0}")]
    Tls(String),
}

/// An HTTP client for gates.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// The response body of one GET: at most [`MAX_ANSWER`] bytes, from exactly this host. The caller limits the time.
    async fn get(&self, endpoint: &Ask) -> Result<Bytes, FetchError>;
}

/// Hosts over the network: rustls, no redirects, through the proxies of the process.
#[derive(Debug, Default)]
pub struct Web {
    proxies: Proxies,
    /// The client for requests that trust only the machine's authorities.
    usual: OnceLock<Client>,
}

#[async_trait]
impl Fetch for Web {
    async fn get(&self, endpoint: &Ask) -> Result<Bytes, FetchError> {
        let client = match &endpoint.credentials.authorities {
            Some(pem) => self.trusting(pem)?,
            None => self.usual()?,
        };
        let request = client
            .get(endpoint.url.clone())
            .header(header::ACCEPT, "application/json");
        let request = match &endpoint.credentials.login {
            Some(Login::Bearer(token)) => request.bearer_auth(token),
            Some(Login::Basic(user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        };
        let answer = request
            .send()
            .await
            .map_err(|error| self.unreachable(endpoint, error))?;
        if answer.status().is_redirection() {
            return Err(FetchError::Redirect(target(&answer)));
        }
        if answer.status() != reqwest::StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        body::read(answer, MAX_ANSWER).await.map_err(|error| match error {
            BodyError::TooLong { .. } => FetchError::TooLong,
            BodyError::Broken(error) => FetchError::Unreachable(cause(error)),
        })
    }
}

impl Web {
    /// A client that uses these proxies.
    pub fn through(proxies: Proxies) -> Self {
        Self {
            proxies,
            ..Self::default()
        }
    }

    fn usual(&self) -> Result<Client, FetchError> {
        if let Some(client) = self.usual.get() {
            return Ok(client.clone());
        }
        let client = built(self.builder())?;
        Ok(self.usual.get_or_init(|| client).clone())
    }

    fn builder(&self) -> ClientBuilder {
        // An error means that the process has installed a provider already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .proxy(self.proxies.rule())
    }

    fn trusting(&self, pem: &[u8]) -> Result<Client, FetchError> {
        // A bundle without any valid certificate is refused like an invalid one.
        let authorities = Certificate::from_pem_bundle(pem).unwrap_or_default();
        if authorities.is_empty() {
            return Err(FetchError::Authorities);
        }
        built(self.builder().tls_certs_merge(authorities))
    }

    fn unreachable(&self, endpoint: &Ask, error: reqwest::Error) -> FetchError {
        let why = cause(error);
        FetchError::Unreachable(match self.proxies.route(&endpoint.url) {
            Some(proxy) => format!("{why} (through proxy {})", proxy.origin()),
            None => why,
        })
    }
}

fn built(builder: ClientBuilder) -> Result<Client, FetchError> {
    builder
        .build()
        .map_err(|error| FetchError::Tls(error.to_string()))
}

/// The host of a redirect; nothing more of the URL, which may have secrets.
fn target(answer: &Response) -> String {
    let to = answer.headers().get(header::LOCATION);
    let to = to.and_then(|to| answer.url().join(to.to_str().ok()?).ok());
    let host = to.as_ref().and_then(|to| Some((to.host_str()?, to.port())));
    match host {
        Some((host, Some(port))) => format!("{host}:{port}"),
        Some((host, None)) => host.to_owned(),
        None => "nowhere".to_owned(),
    }
}
