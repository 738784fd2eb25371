//! The key of a GitHub App, read from a Secret, and the JWT that it signs.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use reqwest::Url;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde_json::json;

use super::SourceError;

/// GitHub accepts JWTs that expire within ten minutes and were not issued in the future: this allows for a minute of
/// clock skew.
const BEFORE: SignedDuration = SignedDuration::from_mins(1);
const AFTER: SignedDuration = SignedDuration::from_mins(8);

/// A GitHub App and its installation.
#[derive(Clone, PartialEq, Eq)]
pub struct GitHubApp {
    pub(super) id: String,
    pub(super) installation: Installation,
    /// The private key in PEM format.
    key: Vec<u8>,
    /// `githubAppBaseURL`.
    base: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Installation {
    Id(u64),
    /// The installation of the repository; the owner is given so that it can be checked.
    Owner(String),
}

impl GitHubApp {
    /// Reads a Secret; `None` if it has no App keys.
    ///
    /// # Errors
    /// If a key is missing or malformed.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Option<Self>, SourceError> {
        if !data.keys().any(|key| key.starts_with("githubApp")) {
            return Ok(None);
        }
        let refuse = |key: &str, why: &str| SourceError::Credentials {
            why: format!("key {key:?} {why}"),
        };
        let text = |key: &str| {
            let value = data.get(key).map(|value| std::str::from_utf8(value));
            let value = value.transpose().map_err(|_| refuse(key, "is not UTF-8"))?;
            Ok::<_, SourceError>(
                value
                    .map(|value| value.trim().to_owned())
                    .filter(|value| !value.is_empty()),
            )
        };
        let id = text("githubAppID")?.ok_or_else(|| refuse("githubAppID", "is missing"))?;
        // An App may also be identified by its client id.
        if !id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        {
            return Err(refuse("githubAppID", "is not an App id"));
        }
        let key = data.get("githubAppPrivateKey").cloned();
        let key = key.ok_or_else(|| refuse("githubAppPrivateKey", "is missing"))?;
        pair(&key)?;
        let number = text("githubAppInstallationID")?.map(|id| {
            id.parse()
                .map_err(|_| refuse("githubAppInstallationID", "is no number"))
        });
        let installation = match (number.transpose()?, text("githubAppInstallationOwner")?) {
            (Some(id), _) => Installation::Id(id),
            (None, Some(owner)) => Installation::Owner(owner),
            (None, None) => {
                return Err(refuse(
                    "githubAppInstallationID",
                    "is missing, and so is githubAppInstallationOwner",
                ));
            }
        };
        let base = text("githubAppBaseURL")?;
        Ok(Some(Self {
            id,
            installation,
            key,
            base,
        }))
    }

    /// Identifies the App and its key in the caches of this process.
    pub(super) fn parts(&self) -> [Vec<u8>; 3] {
        let installation = match &self.installation {
            Installation::Id(id) => id.to_string(),
            Installation::Owner(owner) => format!("of {owner}"),
        };
        [
            self.id.clone().into_bytes(),
            installation.into_bytes(),
            self.key.clone(),
        ]
    }

    /// The base URL of the API: on the repository's host, or GitHub's.
    pub(super) fn api(&self, git: &Url) -> Result<Url, SourceError> {
        let refuse = |why: String| SourceError::Credentials { why };
        let host = git.host_str().unwrap_or_default();
        let is_github = host == "github.com" && git.scheme() == "https" && git.port().is_none();
        let usual = if is_github {
            "https://api.github.com".to_owned()
        } else {
            format!("{}/api/v3", git.origin().ascii_serialization())
        };
        let base = self.base.as_ref().unwrap_or(&usual);
        let api = Url::parse(base.trim_end_matches('/'))
            .map_err(|_| refuse("key \"githubAppBaseURL\" is not a URL".to_owned()))?;
        let is_own = api.origin() == git.origin();
        let is_githubs = is_github && api.origin().ascii_serialization() == "https://api.github.com";
        if !(is_own || is_githubs) || !api.username().is_empty() || api.password().is_some() {
            return Err(refuse(format!(
                "key \"githubAppBaseURL\" names {}, but the key of an App may only be used on the repository's own host: {}",
                api.origin().ascii_serialization(),
                git.origin().ascii_serialization(),
            )));
        }
        Ok(api)
    }

    /// A JWT signed with the key.
    pub(super) fn assertion(&self, now: Timestamp) -> Result<String, SourceError> {
        let encode = |part: serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let (from, until) = (now.saturating_add(-BEFORE), now.saturating_add(AFTER));
        let seconds = |at: Result<Timestamp, _>| at.map_or(0, Timestamp::as_second);
        let claims = json!({"iss": self.id, "iat": seconds(from), "exp": seconds(until)});
        let text = format!(
            "{}.{}",
            encode(json!({"alg": "RS256", "typ": "JWT"})),
            encode(claims)
        );
        let pair = pair(&self.key)?;
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            text.as_bytes(),
            &mut signature,
        )
        .map_err(|_| SourceError::Credentials {
            why: "key \"githubAppPrivateKey\" cannot sign".to_owned(),
        })?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl fmt::Debug for GitHubApp {
    /// Omits the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHubApp")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The private key of an App: RSA, as GitHub creates it (PKCS #1) or converted (PKCS #8).
fn pair(pem: &[u8]) -> Result<RsaKeyPair, SourceError> {
    let refuse = |why: &str| SourceError::Credentials {
        why: format!("key \"githubAppPrivateKey\" is not an RSA private key in PEM format: {why}"),
    };
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| refuse("it has none"))?;
    let pair = match &key {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err(refuse("it is of another kind")),
    };
    pair.map_err(|error| refuse(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(base: Option<&str>) -> GitHubApp {
        let key = include_bytes!("../../tests/fixtures/github/app.pkcs8.pem");
        let mut data = BTreeMap::from([
            ("githubAppID".to_owned(), b"7".to_vec()),
            ("githubAppInstallationID".to_owned(), b"42".to_vec()),
            ("githubAppPrivateKey".to_owned(), key.to_vec()),
        ]);
        if let Some(base) = base {
            data.insert("githubAppBaseURL".to_owned(), base.as_bytes().to_vec());
        }
        GitHubApp::from_secret(&data).unwrap().unwrap()
    }

    #[test]
    fn the_api_is_of_the_repositorys_own_host() {
        let check = |base: Option<&str>, git: &str, expect: Option<&str>| {
            let api = app(base).api(&git.parse().unwrap());
            assert_eq!(
                api.as_ref().ok().map(Url::as_str),
                expect,
                "{base:?} {git} {api:?}"
            );
        };
        let github = "https://github.com/o/r";
        check(None, github, Some("https://api.github.com/"));
        check(
            Some("https://api.github.com/"),
            github,
            Some("https://api.github.com/"),
        );
        check(Some("https://api.github.com.evil.test"), github, None);
        check(Some("http://api.github.com"), github, None);
        check(Some("https://u@github.com/api/v3"), github, None);
        let own = "https://git.test:8443/o/r.git";
        check(None, own, Some("https://git.test:8443/api/v3"));
        check(
            Some("https://git.test:8443/github/api/v3/"),
            own,
            Some("https://git.test:8443/github/api/v3"),
        );
        check(Some("https://git.test/api/v3"), own, None);
        check(Some("https://api.github.com"), own, None);
        check(Some("nonsense"), own, None);
        check(
            None,
            "https://github.com:8443/o/r",
            Some("https://github.com:8443/api/v3"),
        );
    }
}
