//! GitHub Apps: exchanges the key of an App for a token that can read one repository for an hour.
//!
//! The key signs a short-lived JWT (RS256) for the App, which the API exchanges for a token of the App's installation,
//! limited to one repository and to reading its contents. Tokens are cached until a minute before they expire, and
//! never shown. The keys in the Secret are Flux's.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use parking_lot::Mutex;
use reqwest::blocking::{Client, RequestBuilder, Response};
use reqwest::{Method, StatusCode, Url, header};
use serde::Deserialize;
use serde_json::json;

use muster_kit::Clock;

use super::deadline::Deadline;
use super::error::AppRefusal;
use super::github_app::{GitHubApp, Installation};
use super::url::GitUrl;
use super::{Credentials, SourceError};

/// How long before its expiry a token is no longer used.
const SPARE: SignedDuration = SignedDuration::from_mins(1);
/// The clock difference from which messages mention it.
const SKEW: Duration = Duration::from_mins(1);
/// The longest response that is read, in bytes.
const MAX_ANSWER: u64 = 256 << 10;

/// Cached tokens, by App and repository.
#[derive(Default)]
pub(super) struct Tokens(Mutex<BTreeMap<String, Token>>);

#[derive(Clone)]
struct Token {
    value: String,
    until: Timestamp,
}

/// The input of one exchange.
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

impl Tokens {
    /// A token for the repository, cached or new.
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

    /// Drops a token that git refused.
    pub(super) fn drop_token(&self, credentials: &Credentials, url: &GitUrl) {
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

/// `OWNER/REPOSITORY` of a URL.
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
                "a GitHub App reads https://HOST/OWNER/REPOSITORY, but the url does not have this form"
                    .to_owned(),
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
            Installation::Owner(given) if !given.eq_ignore_ascii_case(&owner) => {
                return Err(refuse(format!(
                    "key \"githubAppInstallationOwner\" is not the owner of {owner}/{name}"
                )));
            }
            Installation::Owner(_) => {
                let at = format!("{root}/repos/{owner}/{name}/installation");
                let installed: Installed = call.call_api(Method::GET, &at, |request| request)?;
                if installed.suspended_at.is_some() {
                    return Err(call.refused(AppRefusal::Suspended));
                }
                installed.id
            }
        };
        let body = json!({"repositories": [name], "permissions": {"contents": "read"}});
        let at = format!("{root}/app/installations/{id}/access_tokens");
        let given: Given = call.call_api(Method::POST, &at, |request| request.body(body.to_string()))?;
        // The token becomes a header value.
        let is_token = !given.token.is_empty() && given.token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token
            .then_some(given)
            .ok_or_else(|| call.refused(AppRefusal::Answer))
    }
}

/// The HTTP requests of one exchange.
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

    fn call_api<T: for<'de> Deserialize<'de>>(
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
        let mentions = |word: &str| String::from_utf8_lossy(body).to_lowercase().contains(word);
        let url = self.exchange.url.text.clone();
        match status {
            StatusCode::UNAUTHORIZED => self.refused(AppRefusal::Unauthorized(self.skew(date))),
            StatusCode::FORBIDDEN if mentions("suspended") => self.refused(AppRefusal::Suspended),
            StatusCode::NOT_FOUND => self.refused(AppRefusal::NotInstalled),
            StatusCode::UNPROCESSABLE_ENTITY => self.refused(AppRefusal::NotGranted),
            status
                if status.is_server_error()
                    || status == StatusCode::TOO_MANY_REQUESTS
                    || mentions("rate limit") =>
            {
                SourceError::Unreachable {
                    url,
                    why: format!("GitHub's API answered {status}"),
                }
            }
            status => self.refused(AppRefusal::Status(status.as_u16())),
        }
    }

    /// How far the local clock is ahead of the server's, if the difference is large enough to mention.
    fn skew(&self, date: Option<&header::HeaderValue>) -> Option<SignedDuration> {
        let there = rfc2822::parse(date?.to_str().ok()?).ok()?.timestamp();
        let ahead = self.exchange.clock.now().duration_since(there);
        (ahead.unsigned_abs() > SKEW).then_some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
