//! GitHub Apps: from the key of an App to a token that reads one repository for an hour.
//!
//! The key signs a short assertion of the App's identity (a JWT, RS256), which the API changes for a token of the App's installation,
//! limited to the one repository and to reading its contents. Tokens are kept until a minute before their end, and never shown. Keys of the
//! Secret are Flux's.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use parking_lot::Mutex;
use reqwest::blocking::{Client, RequestBuilder, Response};
use reqwest::{Method, StatusCode, Url, header};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde::Deserialize;
use serde_json::json;

use super::clock::{Clock, Deadline};
use super::url::GitUrl;
use super::{Credentials, SourceError};

/// GitHub takes assertions of ten minutes at most, and not from the future: clocks may differ by a minute.
const BEFORE: SignedDuration = SignedDuration::from_mins(1);
const AFTER: SignedDuration = SignedDuration::from_mins(8);
/// How long before its end a token is no longer used.
const SPARE: SignedDuration = SignedDuration::from_mins(1);
/// From here on a difference of clocks is worth a word.
const SKEW: Duration = Duration::from_mins(1);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 256 << 10;

/// A GitHub App and where it is installed.
#[derive(Clone, PartialEq, Eq)]
pub struct GitHubApp {
    id: String,
    installation: Installation,
    /// PEM.
    key: Vec<u8>,
    /// `githubAppBaseURL`.
    base: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
enum Installation {
    Id(u64),
    /// The one that the repository has; its owner is named to be compared.
    Owner(String),
}

/// Why an App has no token for a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppRefusal {
    /// 404.
    #[error("it is not installed there; install it for this repository, or correct the Secret")]
    NotInstalled,
    /// 403, or said by the installation.
    #[error("its installation is suspended; have its owner unsuspend it")]
    Suspended,
    /// 401. The clock may be the reason.
    #[error("its key is refused{}; correct githubAppID and githubAppPrivateKey in the Secret", match .0 {
        Some(ahead) if ahead.is_negative() => format!(", and this machine's clock is {} s behind: set it", ahead.unsigned_abs().as_secs()),
        Some(ahead) => format!(", and this machine's clock is {} s ahead: set it", ahead.unsigned_abs().as_secs()),
        None => String::new(),
    })]
    Unauthorized(Option<SignedDuration>),
    /// 422.
    #[error("its installation does not reach the repository with contents: read; grant it")]
    NotGranted,
    /// Another answer.
    #[error("it answered {0}")]
    Status(u16),
    /// Not what the API answers.
    #[error("it answered what is no answer of GitHub's API")]
    Answer,
}

/// Tokens that were given, by App and repository.
#[derive(Default)]
pub(super) struct Tokens(Mutex<BTreeMap<String, Token>>);

#[derive(Clone)]
struct Token {
    value: String,
    until: Timestamp,
}

/// What one exchange needs.
pub(super) struct Exchange<'a> {
    pub client: &'a Client,
    pub url: &'a GitUrl,
    pub deadline: Deadline,
    pub clock: &'a Clock,
}

#[derive(Deserialize)]
struct Given {
    token: String,
    expires_at: Timestamp,
}

#[derive(Deserialize)]
struct Installed {
    id: u64,
    suspended_at: Option<String>,
}

impl GitHubApp {
    /// From a Secret; `None`: it has no key of an App.
    ///
    /// # Errors
    /// A key is missing, or of the wrong form.
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
        // An App may be named by its client id too.
        if !id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        {
            return Err(refuse("githubAppID", "is no id of an App"));
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

    /// Tells Apps apart in the memory of this process.
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

    /// The root of the API: of the repository's own host, or GitHub's.
    fn api(&self, git: &Url) -> Result<Url, SourceError> {
        let refuse = |why: String| SourceError::Credentials { why };
        let host = git.host_str().unwrap_or_default();
        let is_github = host == "github.com" && git.scheme() == "https" && git.port().is_none();
        let usual = if is_github {
            "https://api.github.com".to_owned()
        } else {
            format!("{}/api/v3", git.origin().ascii_serialization())
        };
        let said = self.base.as_ref().unwrap_or(&usual);
        let api = Url::parse(said.trim_end_matches('/'))
            .map_err(|_| refuse("key \"githubAppBaseURL\" is no URL".to_owned()))?;
        let is_own = api.origin() == git.origin();
        let is_githubs = is_github && api.origin().ascii_serialization() == "https://api.github.com";
        if !(is_own || is_githubs) || !api.username().is_empty() || api.password().is_some() {
            return Err(refuse(format!(
                "key \"githubAppBaseURL\" names {}, and the key of an App is used on the repository's own host alone: {}",
                api.origin().ascii_serialization(),
                git.origin().ascii_serialization(),
            )));
        }
        Ok(api)
    }

    /// Signed by the key.
    fn assertion(&self, now: Timestamp) -> Result<String, SourceError> {
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
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHubApp")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The key of an App: RSA, as GitHub makes them (PKCS #1) or converted (PKCS #8).
fn pair(pem: &[u8]) -> Result<RsaKeyPair, SourceError> {
    let refuse = |why: &str| SourceError::Credentials {
        why: format!("key \"githubAppPrivateKey\" is no RSA private key in PEM: {why}"),
    };
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| refuse("it has none"))?;
    let pair = match &key {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err(refuse("it is of another kind")),
    };
    pair.map_err(|error| refuse(&error.to_string()))
}

impl Tokens {
    /// A token for the repository: one that was given before, or a new one.
    pub(super) fn token(
        &self,
        credentials: &Credentials,
        app: &GitHubApp,
        exchange: &Exchange<'_>,
    ) -> Result<String, SourceError> {
        let key = key(credentials, exchange.url);
        let now = exchange.clock.now();
        let is_fresh = |token: &&Token| token.until.duration_since(now) > SPARE;
        if let Some(token) = self.0.lock().get(&key).filter(is_fresh) {
            return Ok(token.value.clone());
        }
        let given = exchange.run(app, now)?;
        let mut tokens = self.0.lock();
        tokens.retain(|_, token| is_fresh(&&*token));
        let token = Token {
            value: given.token.clone(),
            until: given.expires_at,
        };
        tokens.insert(key, token);
        Ok(given.token)
    }

    /// A token that git refuses is not used again.
    pub(super) fn forget(&self, credentials: &Credentials, url: &GitUrl) {
        self.0.lock().remove(&key(credentials, url));
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

fn key(credentials: &Credentials, url: &GitUrl) -> String {
    format!("{} {}", credentials.fingerprint(), url.text)
}

/// `OWNER/REPOSITORY` of an address.
fn repository(url: &Url) -> Option<(String, String)> {
    let path = url.path().trim_matches('/');
    let (owner, name) = path.split_once('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    (!owner.is_empty() && !name.is_empty() && !name.contains('/'))
        .then(|| (owner.to_owned(), name.to_owned()))
}

impl Exchange<'_> {
    fn run(&self, app: &GitHubApp, now: Timestamp) -> Result<Given, SourceError> {
        let refuse = |why: String| SourceError::Credentials { why };
        let git = Url::parse(&self.url.text).map_err(|error| refuse(error.to_string()))?;
        let api = app.api(&git)?;
        let root = api.as_str().trim_end_matches('/');
        let (owner, name) = repository(&git).ok_or_else(|| {
            refuse(
                "a GitHub App reads https://HOST/OWNER/REPOSITORY, and the url is no such address".to_owned(),
            )
        })?;
        let assertion = app.assertion(now)?;
        let call = Call {
            exchange: self,
            app,
            assertion,
            repository: format!("{owner}/{name}"),
        };
        let id = match &app.installation {
            Installation::Id(id) => *id,
            Installation::Owner(said) if !said.eq_ignore_ascii_case(&owner) => {
                return Err(refuse(format!(
                    "key \"githubAppInstallationOwner\" is not the owner of {owner}/{name}"
                )));
            }
            Installation::Owner(_) => {
                let at = format!("{root}/repos/{owner}/{name}/installation");
                let installed: Installed = call.ask(Method::GET, &at, |request| request)?;
                if installed.suspended_at.is_some() {
                    return Err(call.refused(AppRefusal::Suspended));
                }
                installed.id
            }
        };
        let body = json!({"repositories": [name], "permissions": {"contents": "read"}});
        let at = format!("{root}/app/installations/{id}/access_tokens");
        let given: Given = call.ask(Method::POST, &at, |request| request.body(body.to_string()))?;
        // It becomes a header.
        let is_token = !given.token.is_empty() && given.token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token
            .then_some(given)
            .ok_or_else(|| call.refused(AppRefusal::Answer))
    }
}

/// Requests of one exchange.
struct Call<'a> {
    exchange: &'a Exchange<'a>,
    app: &'a GitHubApp,
    assertion: String,
    repository: String,
}

impl Call<'_> {
    fn refused(&self, why: AppRefusal) -> SourceError {
        SourceError::GitHubApp {
            app: self.app.id.clone(),
            repository: self.repository.clone(),
            why,
        }
    }

    fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        url: &str,
        with: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<T, SourceError> {
        let Exchange { client, deadline, .. } = self.exchange;
        deadline.check(&self.exchange.url.text, "asking GitHub for a token")?;
        let request = client
            .request(method, url)
            .header(header::ACCEPT, "application/vnd.github+json")
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-github-api-version", "2022-11-28")
            .bearer_auth(&self.assertion)
            .timeout(deadline.remaining());
        let answer = with(request).send().map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let date = answer.headers().get(header::DATE).cloned();
        let body = self.read(answer)?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| self.refused(AppRefusal::Answer));
        }
        Err(self.refusal(status, date.as_ref(), &body))
    }

    fn read(&self, answer: Response) -> Result<Vec<u8>, SourceError> {
        let mut body = Vec::new();
        let read = answer.take(MAX_ANSWER).read_to_end(&mut body);
        let deadline = &self.exchange.deadline;
        read.map(|_| body).map_err(|_| {
            if deadline.passed() {
                deadline.timeout(&self.exchange.url.text, "asking GitHub for a token")
            } else {
                self.refused(AppRefusal::Answer)
            }
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> SourceError {
        let url = self.exchange.url.text.clone();
        if error.is_timeout() || self.exchange.deadline.passed() {
            return self.exchange.deadline.timeout(&url, "asking GitHub for a token");
        }
        SourceError::Unreachable {
            url,
            why: "GitHub's API gave no answer".to_owned(),
        }
    }

    fn refusal(&self, status: StatusCode, date: Option<&header::HeaderValue>, body: &[u8]) -> SourceError {
        let says = |word: &str| String::from_utf8_lossy(body).to_lowercase().contains(word);
        let url = self.exchange.url.text.clone();
        match status {
            StatusCode::UNAUTHORIZED => self.refused(AppRefusal::Unauthorized(self.skew(date))),
            StatusCode::FORBIDDEN if says("suspended") => self.refused(AppRefusal::Suspended),
            StatusCode::NOT_FOUND => self.refused(AppRefusal::NotInstalled),
            StatusCode::UNPROCESSABLE_ENTITY => self.refused(AppRefusal::NotGranted),
            status
                if status.is_server_error()
                    || status == StatusCode::TOO_MANY_REQUESTS
                    || says("rate limit") =>
            {
                SourceError::Unreachable {
                    url,
                    why: format!("GitHub's API answered {status}"),
                }
            }
            status => self.refused(AppRefusal::Status(status.as_u16())),
        }
    }

    /// How far the clock here is ahead of the server's, if that is worth a word.
    fn skew(&self, date: Option<&header::HeaderValue>) -> Option<SignedDuration> {
        let there = rfc2822::parse(date?.to_str().ok()?).ok()?.timestamp();
        let ahead = self.exchange.clock.now().duration_since(there);
        (ahead.unsigned_abs() > SKEW).then_some(ahead)
    }
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

    #[test]
    fn owner_and_name_of_a_repository() {
        let check = |url: &str, expect: Option<(&str, &str)>| {
            let found = repository(&url.parse().unwrap());
            let found = found
                .as_ref()
                .map(|(owner, name)| (owner.as_str(), name.as_str()));
            assert_eq!(found, expect, "{url}");
        };
        check("https://github.com/o/r", Some(("o", "r")));
        check("https://github.com/o/r.git/", Some(("o", "r")));
        check("https://github.com/o", None);
        check("https://github.com/", None);
        check("https://github.com/o/r/s", None);
        check("https://github.com/o/.git", None);
    }
}
