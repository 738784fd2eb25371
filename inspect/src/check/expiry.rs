//! The expiry of a credential, as far as it states one. Pure; nothing is verified, and no value is repeated.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use muster_controllers::{registry::Access, runtime::isolated};
use serde_json::Value;
use x509_parser::{parse_x509_certificate, pem::parse_x509_pem};

/// The earliest expiry of the credentials in a kubeconfig; `None` if none states one.
pub(crate) fn first_expiry(access: &Access) -> Option<Timestamp> {
    let token = access.token.as_ref().and_then(|token| of_token(token.expose()));
    let certificate = access
        .client_certificate
        .as_ref()
        .and_then(|(pem, _)| of_certificate(pem));
    token.into_iter().chain(certificate).min()
}

/// The `exp` claim of a JSON Web Token, in seconds.
fn of_token(token: &str) -> Option<Timestamp> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?; // not a token: it states no expiry
    let claims: Value = serde_json::from_slice(&claims).ok()?; // the same
    Timestamp::from_second(claims.get("exp")?.as_i64()?).ok() // an invalid time states no expiry
}

fn of_certificate(pem: &[u8]) -> Option<Timestamp> {
    let read = || {
        let (_, pem) = parse_x509_pem(pem).ok()?; // the API server refuses an invalid certificate
        let (_, certificate) = parse_x509_certificate(&pem.contents).ok()?; // the same
        Timestamp::from_second(certificate.validity().not_after.timestamp()).ok() // an invalid time states no expiry
    };
    // A bug in a parser must not stop the checks of all clusters.
    isolated(read).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_its_end() {
        let token = |claims: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(
            of_token(&token("{\"exp\": 60}")),
            Some("1970-01-01T00:01:00Z".parse().unwrap())
        );
        assert_eq!(of_token(&token("{}")), None);
        assert_eq!(of_token("opaque"), None);
    }

    #[test]
    fn a_certificate_says_its_end() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let api = runtime.block_on(async { muster_apiserver::ApiServer::in_process().unwrap() });
        let identity = api.issue("ann").unwrap();
        assert!(of_certificate(identity.certificate.as_bytes()).is_some());
        assert_eq!(of_certificate(b"none"), None);
    }
}
