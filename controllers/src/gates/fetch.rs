//! One GET, within its limits. [`Fetch`] is the seam: [`Web`] asks hosts, tests on paused time have a host of their own.

use std::sync::OnceLock;

use async_trait::async_trait;
use bytes::Bytes;
use muster_kit::body::{self, BodyError, cause};
use muster_sync::proxy::Proxies;
use reqwest::{Certificate, Client, ClientBuilder, Response, Url, header, redirect};
use thiserror::Error;

use super::credentials::{Credentials, Login};

/// The longest answer that is read, in bytes. Prometheus writes some 150 for a series: this is room for 400 of them, and a gate asks
/// for one. At most sixty-four answers are read at once, of which at most as many as there are threads are taken apart, each into
/// twenty times its length: 4 MiB and some.
pub const MAX_ANSWER: usize = 64 * 1024;

/// What is asked of a host.
#[derive(Clone)]
pub struct Ask {
    /// Where. Its host was allowed.
    pub url: Url,
    /// Who asks.
    pub credentials: Credentials,
}

/// Why there is no answer. Nothing in it comes from credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FetchError {
    /// The host leads elsewhere.
    #[error("the host redirects to {0}; redirects are not followed: name the address itself")]
    Redirect(String),
    /// The host answers something else than 200.
    #[error("the host answered {0}")]
    Status(u16),
    /// The answer is too long.
    #[error("the answer is longer than {} KiB", MAX_ANSWER / 1024)]
    TooLong,
    /// No connection, or none to the end.
    #[error("the host cannot be reached: {0}")]
    Unreachable(String),
    /// An authority that cannot be read.
    #[error("key \"ca.crt\" of its Secret holds no PEM certificate")]
    Authorities,
    /// TLS could not be prepared.
    #[error("TLS cannot be prepared: {0}")]
    Tls(String),
}

/// How hosts are asked.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// The body of the answer to one GET: at most [`MAX_ANSWER`] bytes, from that very host. The caller bounds the time.
    async fn get(&self, ask: &Ask) -> Result<Bytes, FetchError>;
}

/// Hosts over the network: rustls, no redirect, by the proxies of the process.
#[derive(Debug, Default)]
pub struct Web {
    proxies: Proxies,
    /// For all who trust the machine's authorities alone.
    usual: OnceLock<Client>,
}

#[async_trait]
impl Fetch for Web {
    async fn get(&self, ask: &Ask) -> Result<Bytes, FetchError> {
        let client = match &ask.credentials.authorities {
            Some(pem) => self.trusting(pem)?,
            None => self.usual()?,
        };
        let request = client
            .get(ask.url.clone())
            .header(header::ACCEPT, "application/json");
        let request = match &ask.credentials.login {
            Some(Login::Bearer(token)) => request.bearer_auth(token),
            Some(Login::Basic(user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        };
        let answer = request
            .send()
            .await
            .map_err(|error| self.unreachable(ask, error))?;
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
    /// Hosts are reached through these proxies.
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
        // An error means that the process has installed a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .proxy(self.proxies.rule())
    }

    fn trusting(&self, pem: &[u8]) -> Result<Client, FetchError> {
        // What is no certificate is as good as none: both are refused.
        let authorities = Certificate::from_pem_bundle(pem).unwrap_or_default();
        if authorities.is_empty() {
            return Err(FetchError::Authorities);
        }
        built(self.builder().tls_certs_merge(authorities))
    }

    fn unreachable(&self, ask: &Ask, error: reqwest::Error) -> FetchError {
        let why = cause(error);
        FetchError::Unreachable(match self.proxies.route(&ask.url) {
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

/// The host that a redirect leads to; nothing more of an address that may hold anything.
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
