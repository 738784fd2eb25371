//! One call to an API server: with a total deadline, a bounded response, and a wait if the server asks for one.
//!
//! Every request may be sent twice: reads, dry runs, server-side apply, and writes that carry a uid or a resource
//! version. Even so, a call is repeated only if the server says that it did not act.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body, core::Status};

/// The longest response that is read, in bytes: room for a page of 500 objects, the largest of which have 1.5 MiB.
pub const RESPONSE_LIMIT: usize = 32 * 1024 * 1024;

/// The longest `Retry-After` that is honored. If a server asks for more, the caller decides when to call again.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The shortest wait: an overloaded server is not called again at once, whatever it asks for.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server refused the request.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// No complete response in time; whether the server acted is unknown.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Deadline(Duration),
    /// The response is longer than the limit; whether the server acted is unknown.
    #[error("the response is longer than {} MiB", .0 / (1024 * 1024))]
    TooLong(usize),
    /// The connection failed, or the response is not valid HTTP.
    #[error("the API server could not be reached: {words}")]
    Unreachable {
        /// The whole chain of causes as text.
        words: String,
        /// The underlying error.
        #[source]
        source: Box<kube::Error>,
    },
    /// The response is not what was requested: something other than an API server answers.
    #[error("the response is not from an API server; check the server address")]
    Garbled(#[source] serde_json::Error),
    /// The request could not be built: a name is invalid in a URL.
    #[error("the request cannot be made: {0}")]
    Request(String),
}

/// The response: the body, or a refusal with the wait that the server asks for.
enum Answer {
    Body(Bytes),
    Refusal(Box<Status>, Option<Duration>),
}

impl CallError {
    /// Whether the server says that the object or path does not exist. By status code: paths that are not served are
    /// answered in plain text.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 404)
    }

    /// Whether another client wrote first: the object is no longer the one that the write was made for.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 409)
    }

    /// Whether the cluster, not an object, is the cause: no response, an overload, or rejected credentials.
    pub fn is_of_cluster(&self) -> bool {
        match self {
            Self::Refused(status) => matches!(status.code, 401 | 429 | 500..) && !does_not_fit(status),
            Self::Deadline(_) | Self::Unreachable { .. } | Self::Garbled(_) => true,
            Self::TooLong(_) | Self::Request(_) => false,
        }
    }

    /// The server's reason for a refusal; ours if there is none.
    pub fn reason(&self) -> &str {
        match self {
            Self::Refused(status) if does_not_fit(status) => "Invalid",
            Self::Refused(status) if status.reason.is_empty() => "Refused",
            Self::Refused(status) => &status.reason,
            Self::Deadline(_) => "Timeout",
            Self::TooLong(_) => "TooLong",
            Self::Unreachable { .. } => "Unreachable",
            Self::Garbled(_) => "Garbled",
            Self::Request(_) => "BadRequest",
        }
    }
}

/// Whether an applied object has an unknown field, or a value of the wrong type: kube-apiserver answers that with 500
/// and no reason, as it does for its own failures.
fn does_not_fit(status: &Status) -> bool {
    status.code == 500 && status.message.starts_with("failed to create typed patch object")
}

/// Sends a request; the response is complete within `deadline`, including waits that the server asks for.
pub(crate) async fn exchange(
    client: &Client,
    request: Request<Vec<u8>>,
    deadline: Duration,
) -> Result<Bytes, CallError> {
    let exchange = patiently(client, request.map(Bytes::from), deadline);
    tokio::time::timeout(deadline, exchange)
        .await
        .unwrap_or(Err(CallError::Deadline(deadline)))
}

/// Sends a request, and again after each wait that the server asks for, while there is time left.
async fn patiently(client: &Client, request: Request<Bytes>, deadline: Duration) -> Result<Bytes, CallError> {
    let mut waited = Duration::ZERO;
    loop {
        match send_once(client, request.clone()).await? {
            Answer::Body(body) => return Ok(body),
            Answer::Refusal(_, Some(wait)) if waited + wait < deadline => {
                waited += wait;
                tokio::time::sleep(wait).await;
            }
            Answer::Refusal(status, _) => return Err(CallError::Refused(status)),
        }
    }
}

async fn send_once(client: &Client, request: Request<Bytes>) -> Result<Answer, CallError> {
    let response = client.send(request.map(Body::from)).await.map_err(unreachable)?;
    let (head, body) = response.into_parts();
    let body = read(body).await?;
    if head.status.is_success() {
        return Ok(Answer::Body(body));
    }
    let wait = retry_after(head.status, &head.headers);
    Ok(Answer::Refusal(Box::new(refusal(head.status, &body)), wait))
}

/// Reads a body up to the limit.
async fn read(mut body: Body) -> Result<Bytes, CallError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Frames other than data are trailers, which an API server does not send.
        let Ok(data) = frame.map_err(unreachable)?.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > RESPONSE_LIMIT {
            return Err(CallError::TooLong(RESPONSE_LIMIT));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// The server's `Status` of a refusal. A body that is not a `Status`, such as that of a proxy or for a path that is not
/// served, becomes its message.
fn refusal(code: StatusCode, body: &[u8]) -> Status {
    let status = serde_json::from_slice::<Status>(body)
        .ok() // then it is text
        .filter(Status::is_failure);
    status
        .unwrap_or_else(|| Status::failure(String::from_utf8_lossy(body).trim(), ""))
        .with_code(code.as_u16())
}

/// How long to wait before the same request may be sent again, if the server says that it did not act and asks for a
/// wait.
fn retry_after(code: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let busy = matches!(
        code,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    // API servers send only numbers; anything else, such as a date, is ignored.
    let seconds = headers
        .get(RETRY_AFTER)
        .filter(|_| busy)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds).clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX))
}

fn unreachable(error: kube::Error) -> CallError {
    CallError::Unreachable {
        words: chain(&error),
        source: Box::new(error),
    }
}

/// An error and its causes in one line; a cause that the outer message already contains is left out.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !words.contains(&next) {
            words = format!("{words}: {next}");
        }
        cause = error.source();
    }
    words
}
