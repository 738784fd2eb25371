//! How libgit2 reaches `http` and `https`: through one TLS stack, one deadline, one count of bytes.
//!
//! libgit2 is built without TLS and without ssh. It hands each exchange of the smart protocol to [`Web`], which carries it out with
//! reqwest: the deadline is that of the whole operation (a server that drips does not extend it), received bytes are counted,
//! redirects stay on the host, credentials go nowhere else. libgit2 makes transports by a function that is registered once for the
//! process; the context of the fetch reaches it by a thread-local around the blocking call ([`Context::enter`]).
//!
//! This is the one file of the house with `unsafe`: registering is, because libgit2 keeps its list without a lock.

use std::cell::RefCell;
use std::error::Error as _;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};
use git2::{ConfigLevel, ErrorClass, ErrorCode};
use parking_lot::Mutex;
use reqwest::blocking::{Client, RequestBuilder, Response};
use reqwest::{Certificate, Identity, StatusCode, redirect};

use super::clock::Deadline;
use super::url::GitUrl;
use super::{Credentials, Limits, SourceError};

/// Negotiation that we would send at most: wants and haves of a depth-1 fetch are far below.
const MAX_REQUEST: usize = 16 << 20;

/// Redirects followed on the same host.
const MAX_REDIRECTS: usize = 5;

/// Registers the transports and cuts libgit2 off from configuration files; once for the process.
pub(super) fn ready() -> Result<(), SourceError> {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let ready = READY.get_or_init(|| register().map_err(|error| error.message().to_owned()));
    ready.clone().map_err(|why| SourceError::Storage {
        what: "preparing libgit2",
        why,
    })
}

#[allow(unsafe_code)]
fn register() -> Result<(), git2::Error> {
    for level in [
        ConfigLevel::ProgramData,
        ConfigLevel::System,
        ConfigLevel::XDG,
        ConfigLevel::Global,
    ] {
        // SAFETY: must not run while libgit2 reads the search paths or the list of transports in another thread. Every use of
        // libgit2 in this crate is behind `ready`, whose OnceLock runs this once, before the first of them.
        unsafe { git2::opts::set_search_path(level, "") }?;
    }
    for scheme in ["http", "https"] {
        // SAFETY: as above; the function given is called with a live remote for the duration of the call only.
        unsafe {
            git2::transport::register(scheme, |remote| Transport::smart(remote, true, Web::current()?))
        }?;
    }
    Ok(())
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Context>>> = const { RefCell::new(None) };
}

/// What one operation may do, and what became of it.
pub(super) struct Context {
    url: GitUrl,
    /// Where the repository is after redirects on its host.
    base: Mutex<String>,
    client: Option<Client>,
    credentials: Option<Credentials>,
    limits: Limits,
    deadline: Deadline,
    received: AtomicU64,
    failure: Mutex<Option<SourceError>>,
}

impl Context {
    pub(super) fn new(
        url: GitUrl,
        credentials: Option<Credentials>,
        limits: Limits,
        deadline: Deadline,
    ) -> Result<Arc<Self>, SourceError> {
        let client = if url.is_web() {
            Some(client(credentials.as_ref())?)
        } else {
            None
        };
        Ok(Arc::new(Self {
            base: Mutex::new(url.text.clone()),
            url,
            client,
            credentials,
            limits,
            deadline,
            received: AtomicU64::new(0),
            failure: Mutex::new(None),
        }))
    }

    /// Runs git calls of this thread in this context; a failure that we know better than libgit2 replaces its error.
    pub(super) fn enter<T>(
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

    /// To be asked by callbacks: false ends the operation.
    pub(super) fn goes_on(&self, objects: usize, bytes: u64) -> bool {
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

    fn check_deadline(&self, phase: &'static str) -> Result<(), SourceError> {
        if self.deadline.passed() {
            Err(self.timeout(phase))
        } else {
            Ok(())
        }
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

    fn timeout(&self, phase: &'static str) -> SourceError {
        SourceError::Timeout {
            url: self.url.text.clone(),
            after: self.deadline.total,
            phase,
        }
    }

    /// Remembers the first failure; what follows is its consequence.
    fn fail(&self, error: SourceError) -> io::Error {
        let message = error.to_string();
        self.failure.lock().get_or_insert(error);
        io::Error::other(message)
    }

    fn protocol(&self, why: String) -> SourceError {
        SourceError::Protocol {
            url: self.url.text.clone(),
            why,
        }
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        let Some(credentials) = &self.credentials else {
            return request;
        };
        match (&credentials.username, &credentials.bearer_token) {
            (Some(user), _) => request.basic_auth(user, credentials.password.as_deref()),
            (None, Some(token)) => request.bearer_auth(token),
            (None, None) => request,
        }
    }

    fn send(&self, exchange: &Exchange) -> Result<Response, SourceError> {
        self.check_deadline("connecting")?;
        let Some(client) = &self.client else {
            return Err(self.protocol("it is no web address".to_owned()));
        };
        let base = self.base.lock().clone();
        let request = match exchange {
            Exchange::References => client.get(format!("{base}{REFERENCES}")),
            Exchange::Pack(body) => client
                .post(format!("{base}/git-upload-pack"))
                .header("content-type", "application/x-git-upload-pack-request")
                .body(body.clone()),
        };
        let request = self.authorized(request.header("accept", exchange.answer_type()));
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

    fn check_answer(&self, exchange: &Exchange, answer: &Response) -> Result<(), SourceError> {
        let url = self.url.text.clone();
        match answer.status() {
            StatusCode::OK => {}
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                let given = self.credentials.as_ref().is_some_and(Credentials::identify);
                return Err(SourceError::Unauthorized {
                    url,
                    status: status.as_u16(),
                    given,
                });
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
        self.check_bytes(self.received.load(Ordering::Relaxed) + answer.content_length().unwrap_or_default())
    }

    /// Why a request did not get an answer.
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
        SourceError::Unreachable { url, why }
    }
}

/// What follows the address of a repository to ask for its references.
const REFERENCES: &str = "/info/refs?service=git-upload-pack";

/// A redirect to another scheme, host or port; holds that origin.
#[derive(Debug, thiserror::Error)]
#[error("redirect to {0}")]
struct LeftHost(String);

fn client(credentials: Option<&Credentials>) -> Result<Client, SourceError> {
    // An error means that the process has installed a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let refuse = |why: String| SourceError::Credentials { why };
    let mut builder = Client::builder()
        .user_agent(concat!("git/2.0 (muster ", env!("CARGO_PKG_VERSION"), ")"))
        .redirect(redirect::Policy::custom(follow))
        .referer(false)
        .timeout(None)
        .no_proxy();
    if let Some(pem) = credentials.and_then(|c| c.ca_crt.as_deref()) {
        let certificates = Certificate::from_pem_bundle(pem).unwrap_or_default();
        if certificates.is_empty() {
            return Err(refuse("key \"ca.crt\" holds no PEM certificate".to_owned()));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    if let Some((certificate, key)) = credentials.and_then(|c| c.tls_crt.as_deref().zip(c.tls_key.as_deref()))
    {
        let pem = [certificate, b"\n", key].concat();
        let identity = Identity::from_pem(&pem)
            .map_err(|_| refuse("keys \"tls.crt\" and \"tls.key\" are no PEM pair".to_owned()))?;
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| SourceError::Storage {
        what: "preparing TLS",
        why: error.to_string(),
    })
}

/// Follows redirects that stay on scheme, host and port.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let origin = |url: &reqwest::Url| url.origin().ascii_serialization();
    let to = origin(attempt.url());
    if attempt.previous().iter().any(|url| origin(url) != to) {
        return attempt.error(LeftHost(to));
    }
    if attempt.previous().len() > MAX_REDIRECTS {
        attempt.stop()
    } else {
        attempt.follow()
    }
}

/// One exchange of the smart protocol.
enum Exchange {
    References,
    Pack(Vec<u8>),
}

impl Exchange {
    fn answer_type(&self) -> &'static str {
        match self {
            Self::References => "application/x-git-upload-pack-advertisement",
            Self::Pack(_) => "application/x-git-upload-pack-result",
        }
    }
}

/// libgit2's subtransport: makes one stream for each exchange.
struct Web(Arc<Context>);

impl Web {
    fn current() -> Result<Self, git2::Error> {
        let current = CURRENT.with_borrow(Clone::clone);
        current.map(Self).ok_or_else(|| {
            git2::Error::new(ErrorCode::GenericError, ErrorClass::Net, "no fetch is under way")
        })
    }
}

impl SmartSubtransport for Web {
    fn action(&self, _url: &str, action: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let exchange = match action {
            Service::UploadPackLs => Exchange::References,
            Service::UploadPack => Exchange::Pack(Vec::new()),
            Service::ReceivePackLs | Service::ReceivePack => {
                return Err(git2::Error::new(
                    ErrorCode::GenericError,
                    ErrorClass::Net,
                    "nothing is ever pushed",
                ));
            }
        };
        Ok(Box::new(Stream {
            context: Arc::clone(&self.0),
            exchange,
            answer: None,
        }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// Collects the request, sends it at the first read, hands on the answer.
struct Stream {
    context: Arc<Context>,
    exchange: Exchange,
    answer: Option<Response>,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.exchange {
            Exchange::Pack(body) if self.answer.is_none() && body.len() + bytes.len() <= MAX_REQUEST => {
                body.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            _ => Err(self
                .context
                .fail(self.context.protocol("the negotiation does not end".to_owned()))),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let context = &self.context;
        context
            .check_deadline("receiving")
            .map_err(|error| context.fail(error))?;
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => context
                .send(&self.exchange)
                .map_err(|error| context.fail(error))?,
        };
        let read = answer.read(buffer).map_err(|error| {
            context.fail(if context.deadline.passed() {
                context.timeout("receiving")
            } else {
                context.protocol(format!("the answer broke off: {error}"))
            })
        })?;
        let received = context.received.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
        context
            .check_bytes(received)
            .map_err(|error| context.fail(error))?;
        self.answer = Some(answer);
        Ok(read)
    }
}
