//! The context of one operation on one repository: its deadline, limits, credentials, and first failure.

use std::error::Error as _;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::StatusCode;
use reqwest::blocking::{Client, RequestBuilder, Response};

use muster_kit::Clock;

use super::super::deadline::Deadline;
use super::super::github::{self, Tokens};
use super::super::url::GitUrl;
use super::super::{Credentials, Limits, SourceError};
use super::client::{LeftHost, client};
use super::ssh::{Login, Session};
use super::{CURRENT, Exchange, REFERENCES};
use crate::proxy::{self, Proxies, Proxy};

/// Capabilities of a server that allows fetching a commit by id.
const GIVES_HASHES: [&[u8]; 2] = [b"allow-tip-sha1-in-want", b"allow-reachable-sha1-in-want"];

/// The limits and the state of one operation.
pub(in super::super) struct Context {
    url: GitUrl,
    /// The URL of the repository after redirects on its host.
    base: Mutex<String>,
    client: Option<Client>,
    credentials: Option<Credentials>,
    proxies: Proxies,
    tokens: Arc<Tokens>,
    clock: Clock,
    /// Set if the repository is reached over ssh.
    login: Option<Arc<Login>>,
    /// An ssh connection on which no request was sent yet.
    parked: Mutex<Option<Session>>,
    limits: Limits,
    deadline: Deadline,
    received: AtomicU64,
    /// The references of the server: requested once per operation.
    references: Mutex<Option<Bytes>>,
    failure: Mutex<Option<SourceError>>,
}

impl Context {
    pub(in super::super) fn new(
        url: GitUrl,
        credentials: Option<Credentials>,
        proxies: Proxies,
        (tokens, clock): (Arc<Tokens>, Clock),
        limits: Limits,
        deadline: Deadline,
    ) -> Result<Arc<Self>, SourceError> {
        if url.is_readable_by_others() && credentials.as_ref().is_some_and(Credentials::identify) {
            return Err(SourceError::Credentials {
                why: "they would be sent over http, where anyone can read them; use https".to_owned(),
            });
        }
        if url.is_web() && credentials.as_ref().is_some_and(Credentials::are_for_ssh) {
            return Err(SourceError::Credentials {
                why: "key \"identity\" is for ssh; write the url as ssh://git@host/path, or use username and password".to_owned(),
            });
        }
        let login = match url.ssh_address() {
            Some(address) => Some(Arc::new(Login::new(
                &url.text,
                address,
                credentials.as_ref(),
                clock.now(),
            )?)),
            None => None,
        };
        let client = if url.is_web() {
            Some(client(credentials.as_ref(), &proxies)?)
        } else {
            None
        };
        Ok(Arc::new(Self {
            base: Mutex::new(url.text.clone()),
            url,
            client,
            credentials,
            proxies,
            tokens,
            clock,
            login,
            parked: Mutex::default(),
            limits,
            deadline,
            received: AtomicU64::new(0),
            references: Mutex::new(None),
            failure: Mutex::new(None),
        }))
    }

    pub(super) fn url(&self) -> &str {
        &self.url.text
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Runs git calls on this thread in this context; if there is a more specific failure, it replaces libgit2's error.
    pub(in super::super) fn enter<T>(
        self: &Arc<Self>,
        work: impl FnOnce() -> Result<T, git2::Error>,
    ) -> Result<Result<T, git2::Error>, SourceError> {
        let before = CURRENT.replace(Some(Arc::clone(self)));
        let result = work();
        CURRENT.set(before);
        match self.failure.lock().take() {
            Some(failure) => Err(failure),
            None => Ok(result),
        }
    }

    /// Whether the server, once its references are known, allows fetching commits by id.
    pub(in super::super) fn gives_hashes(&self) -> bool {
        let references = self.references.lock();
        references
            .as_deref()
            .is_some_and(|text| capabilities(text).any(|capability| GIVES_HASHES.contains(&capability)))
    }

    /// Called by callbacks: false aborts the operation.
    pub(in super::super) fn goes_on(&self, objects: usize, bytes: u64) -> bool {
        let check = self
            .check_deadline("receiving")
            .and_then(|()| self.check_bytes(bytes))
            .and_then(|()| {
                if objects <= self.limits.objects {
                    return Ok(());
                }
                let what = format!("the number of objects ({objects}) in {}", self.url.text);
                let limit = self.limits.objects as u64;
                Err(SourceError::LimitExceeded {
                    what,
                    limit,
                    option: "--git-max-objects",
                })
            });
        check.map_err(|error| self.fail(error)).is_ok()
    }

    pub(super) fn check_deadline(&self, phase: &'static str) -> Result<(), SourceError> {
        self.deadline.check(&self.url.text, phase)
    }

    fn check_bytes(&self, bytes: u64) -> Result<(), SourceError> {
        if bytes <= self.limits.bytes {
            return Ok(());
        }
        let what = format!("the size of what {} sends", self.url.text);
        Err(SourceError::LimitExceeded {
            what,
            limit: self.limits.bytes,
            option: "--git-max-bytes",
        })
    }

    pub(super) fn check_references(&self, bytes: u64) -> Result<(), SourceError> {
        if bytes <= self.limits.reference_bytes {
            return Ok(());
        }
        let what = format!("the size of the list of branches and tags of {}", self.url.text);
        Err(SourceError::LimitExceeded {
            what,
            limit: self.limits.reference_bytes,
            option: "--git-max-reference-bytes",
        })
    }

    pub(super) fn timeout(&self, phase: &'static str) -> SourceError {
        self.deadline.timeout(&self.url.text, phase)
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// The remaining time of the whole operation.
    pub(super) fn remaining(&self) -> Duration {
        self.deadline.remaining()
    }

    pub(super) fn unreachable(&self, why: String) -> SourceError {
        SourceError::Unreachable {
            url: self.url.text.clone(),
            why,
        }
    }

    /// Records the first failure; later ones are its consequences.
    pub(super) fn fail(&self, error: SourceError) -> io::Error {
        let message = error.to_string();
        self.failure.lock().get_or_insert(error);
        io::Error::other(message)
    }

    pub(super) fn protocol(&self, why: String) -> SourceError {
        SourceError::Protocol {
            url: self.url.text.clone(),
            why,
        }
    }

    /// The references of the server, requested once.
    pub(super) fn references(&self) -> Result<Bytes, SourceError> {
        if let Some(known) = self.references.lock().clone() {
            return Ok(known);
        }
        let mut answer = self.send(&Exchange::References)?;
        let mut text = Vec::new();
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = self.receive(&mut answer, &mut buffer)?;
            if read == 0 {
                break;
            }
            text.extend_from_slice(&buffer[..read]);
            self.check_references(text.len() as u64)?;
        }
        self.keep_references(text.into())
    }

    /// Stores the references of the server.
    fn keep_references(&self, text: Bytes) -> Result<Bytes, SourceError> {
        if capabilities(&text).any(|capability| capability == b"object-format=sha256") {
            return Err(SourceError::Unsupported {
                what: format!("the SHA-256 repository {}", self.url.text),
                next: "run Flux in this cluster for it",
            });
        }
        *self.references.lock() = Some(text.clone());
        Ok(text)
    }

    /// An ssh connection on which no request was sent yet, and the references received on it.
    pub(super) fn connection(&self) -> Result<(Session, Bytes), SourceError> {
        let known = self.references.lock().clone();
        if let (Some(session), Some(references)) = (self.parked.lock().take(), known) {
            return Ok((session, references));
        }
        let Some(login) = &self.login else {
            return Err(self.protocol("it is not an ssh URL".to_owned()));
        };
        let mut session = Session::open(self, login)?;
        let references = session.references(self)?;
        Ok((session, self.keep_references(references)?))
    }

    /// Stores a connection on which no request was sent yet, for reuse.
    pub(super) fn park(&self, session: Session) {
        *self.parked.lock() = Some(session);
    }

    /// Counts received bytes.
    pub(super) fn count(&self, read: usize) -> Result<(), SourceError> {
        self.check_bytes(self.received.fetch_add(read as u64, Ordering::Relaxed) + read as u64)
    }

    /// Reads more of a response, within the deadline and the byte limit.
    pub(super) fn receive(&self, answer: &mut Response, buffer: &mut [u8]) -> Result<usize, SourceError> {
        self.check_deadline("receiving")?;
        let read = answer.read(buffer).map_err(|error| {
            if self.deadline.passed() {
                self.timeout("receiving")
            } else {
                self.protocol(format!("the response was cut off: {error}"))
            }
        })?;
        self.count(read)?;
        Ok(read)
    }

    /// Sends a request and checks the status and headers of the response.
    pub(super) fn send(&self, exchange: &Exchange) -> Result<Response, SourceError> {
        self.check_deadline("connecting")?;
        let Some(client) = &self.client else {
            return Err(self.protocol("it is not an http or https URL".to_owned()));
        };
        let base = self.base.lock().clone();
        let request = match exchange {
            Exchange::References => client.get(format!("{base}{REFERENCES}")),
            Exchange::Pack(body) => client
                .post(format!("{base}/git-upload-pack"))
                .header("content-type", "application/x-git-upload-pack-request")
                .body(body.clone()),
        };
        let request = self.authorized(client, request.header("accept", exchange.answer_type()))?;
        let answer = request
            .timeout(self.deadline.remaining())
            .send()
            .map_err(|error| self.sending(error))?;
        self.check_answer(exchange, &answer)?;
        if let Some(moved) = answer.url().as_str().strip_suffix(REFERENCES) {
            moved.clone_into(&mut self.base.lock());
        }
        Ok(answer)
    }

    fn authorized(&self, client: &Client, request: RequestBuilder) -> Result<RequestBuilder, SourceError> {
        let Some(credentials) = &self.credentials else {
            return Ok(request);
        };
        if let Some(app) = &credentials.github_app {
            let exchange = github::Exchange {
                client,
                url: &self.url,
                deadline: self.deadline,
                clock: &self.clock,
            };
            let token = self.tokens.token(credentials, app, &exchange)?;
            return Ok(request.basic_auth("x-access-token", Some(token)));
        }
        Ok(match (&credentials.username, &credentials.bearer_token) {
            (Some(user), _) => request.basic_auth(user, credentials.password.as_deref()),
            (None, Some(token)) => request.bearer_auth(token),
            (None, None) => request,
        })
    }

    fn check_answer(&self, exchange: &Exchange, answer: &Response) -> Result<(), SourceError> {
        let url = self.url.text.clone();
        match answer.status() {
            StatusCode::OK => {}
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                let given = self.credentials.as_ref().is_some_and(Credentials::identify);
                if let Some(credentials) = &self.credentials {
                    self.tokens.drop_token(credentials, &self.url);
                }
                return Err(SourceError::Unauthorized {
                    url,
                    status: status.as_u16(),
                    given,
                });
            }
            StatusCode::PROXY_AUTHENTICATION_REQUIRED if let Some(proxy) = self.proxy() => {
                return Err(self.proxy_asks(proxy));
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => return Err(SourceError::RepositoryNotFound { url }),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(SourceError::Unreachable {
                    url,
                    why: format!("it answered {status}"),
                });
            }
            status => return Err(self.protocol(format!("it answered {status}"))),
        }
        let given = answer
            .headers()
            .get("content-type")
            .and_then(|value| value.to_str().ok())
            .unwrap_or("none");
        if given != exchange.answer_type() {
            let given: String = given.chars().take(80).collect();
            return Err(self.protocol(format!(
                "it answered with content-type {given}; is this the address of a repository?"
            )));
        }
        let announced = answer.content_length().unwrap_or_default();
        if matches!(exchange, Exchange::References) {
            self.check_references(announced)?;
        }
        self.check_bytes(self.received.load(Ordering::Relaxed).saturating_add(announced))
    }

    /// The proxy for the repository, if there is one.
    fn proxy(&self) -> Option<&Proxy> {
        let base = reqwest::Url::parse(&self.base.lock()).ok()?;
        self.proxies.route(&base)
    }

    fn proxy_asks(&self, proxy: &Proxy) -> SourceError {
        SourceError::ProxyUnauthorized {
            url: self.url.text.clone(),
            proxy: proxy.origin(),
            given: !proxy.url().username().is_empty(),
        }
    }

    /// Why a request got no response.
    fn sending(&self, error: reqwest::Error) -> SourceError {
        let url = self.url.text.clone();
        let mut cause = error.source();
        while let Some(source) = cause {
            if let Some(left) = source.downcast_ref::<LeftHost>() {
                return SourceError::RedirectRefused {
                    url,
                    to: left.0.clone(),
                };
            }
            cause = source.source();
        }
        if error.is_timeout() || self.deadline.passed() {
            return self.timeout("waiting for an answer");
        }
        let error = error.without_url();
        let mut why = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            why = source.to_string();
            cause = source.source();
        }
        match self.proxy() {
            Some(proxy) if error.is_connect() => match why.as_str() {
                proxy::ASKS => self.proxy_asks(proxy),
                _ => SourceError::Proxy {
                    url,
                    proxy: proxy.origin(),
                    why: if why == proxy::REFUSES {
                        "it refuses the connection".to_owned()
                    } else {
                        why
                    },
                },
            },
            _ => SourceError::Unreachable { url, why },
        }
    }
}

/// The capabilities of a server, listed after the name of its first reference.
fn capabilities(references: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut lines = references.split(|byte| *byte == b'\n');
    let first = lines.find_map(|line| {
        let end = line.iter().position(|byte| *byte == 0)?;
        line.get(end + 1..)
    });
    let first = first.unwrap_or_default();
    first.split(u8::is_ascii_whitespace)
}
