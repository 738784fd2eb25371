//! The HTTP client of one operation: trust, identity, and redirects.

use reqwest::blocking::Client;
use reqwest::{Certificate, Identity, redirect};

use super::super::{Credentials, SourceError};
use crate::proxy::Proxies;

/// The maximum number of redirects on the same host.
const MAX_REDIRECTS: usize = 5;

/// A redirect to another scheme, host or port; contains the target's origin.
#[derive(Debug, thiserror::Error)]
#[error("redirect to {0}")]
pub(super) struct LeftHost(pub String);

/// Creates a client that uses the certificates in the credentials, and only these proxies.
pub(super) fn client(credentials: Option<&Credentials>, proxies: &Proxies) -> Result<Client, SourceError> {
    // An error means that the process has installed a provider already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let refuse = |why: String| SourceError::Credentials { why };
    let mut builder = Client::builder()
        .user_agent(concat!("git/2.0 (muster ", env!("CARGO_PKG_VERSION"), ")"))
        .redirect(redirect::Policy::custom(follow))
        .referer(false)
        .timeout(None)
        .proxy(proxies.rule());
    if let Some(pem) = credentials.and_then(|c| c.ca_crt.as_deref()) {
        // An invalid certificate counts as none: both are refused below.
        let certificates = Certificate::from_pem_bundle(pem).unwrap_or_default();
        if certificates.is_empty() {
            return Err(refuse("key \"ca.crt\" contains no PEM certificate".to_owned()));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    if let Some((certificate, key)) = credentials.and_then(|c| c.tls_crt.as_deref().zip(c.tls_key.as_deref()))
    {
        let pem = [certificate, b"\n", key].concat();
        let identity = Identity::from_pem(&pem).map_err(|_| {
            refuse("keys \"tls.crt\" and \"tls.key\" are not a PEM certificate and its key".to_owned())
        })?;
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| SourceError::Storage {
        what: "preparing TLS",
        why: error.to_string(),
    })
}

/// Follows redirects that keep scheme, host and port, and contain no credentials.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let origin = |url: &reqwest::Url| url.origin().ascii_serialization();
    let to = origin(attempt.url());
    let brings = !attempt.url().username().is_empty() || attempt.url().password().is_some();
    if brings || attempt.previous().iter().any(|url| origin(url) != to) {
        return attempt.error(LeftHost(to));
    }
    if attempt.previous().len() > MAX_REDIRECTS {
        attempt.stop()
    } else {
        attempt.follow()
    }
}
