//! A total deadline for each call to an API server, and error messages for users.
//!
//! A silent server never answers and a dripping one never ends: a read timeout helps only against the first, a total
//! deadline against both.

use std::{error::Error, fmt::Display, future::Future, time::Duration};

use kube::{client::AuthError, core::request, runtime::watcher};
use muster_api::conditions::bounded;
use thiserror::Error;

use super::{
    Retry,
    deadline::TooSlow,
    refused::{BoundError, NotLeading},
    retry::SOON_MAX,
};

/// The deadline of a call to the API server of this process's cluster.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// The maximum length in bytes of an error that a credential plugin prints.
const COMPLAINT: usize = 300;

/// A failed call.
#[derive(Debug, Error)]
pub enum CallError {
    /// No complete response in time; whether the server acted is unknown.
    #[error("{what}: no answer within {} s", .after.as_secs())]
    Deadline {
        /// The operation and its object.
        what: String,
        /// The deadline that passed.
        after: Duration,
    },
    /// The server rejected the request, or could not be reached.
    #[error("{what}")]
    Api {
        /// The operation and its object.
        what: String,
        /// The error of the client.
        #[source]
        source: Box<kube::Error>,
    },
}

impl CallError {
    /// The HTTP status code of the response, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Deadline { .. } => None,
            Self::Api { source, .. } => code(source),
        }
    }

    /// Whether the object, or its kind, does not exist (404).
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether discovery did not find the kind (404 without an HTTP 404).
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(**source, kube::Error::Discovery(_)))
    }

    /// Whether another writer was faster (409): observe again.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Whether the server rejected the content (422).
    pub fn is_invalid(&self) -> bool {
        self.code() == Some(422)
    }

    /// Whether the credential is not accepted (401) or lacks permission (403).
    pub fn is_refused_credential(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// The message of a server that rejects what was sent and would reject it again: missing permission, a quota, a
    /// webhook, schema validation, size. Busy, broken and silent servers, and conflicts, are not included.
    pub fn refusal(&self) -> Option<&str> {
        let Self::Api { source, .. } = self else {
            return None;
        };
        match &**source {
            kube::Error::Api(status) if matches!(status.code, 400 | 403 | 413 | 422) => Some(&status.message),
            _ => None,
        }
    }

    /// Whether there was no response: the connection failed, or the deadline passed.
    pub fn is_unreachable(&self) -> bool {
        self.code().is_none() && !self.is_unknown_kind()
    }

    /// How long the server asks to wait (`Retry-After`), up to a limit, so that a server cannot stop us for a day.
    pub fn retry_after(&self) -> Option<Duration> {
        let Self::Api { source, .. } = self else {
            return None;
        };
        let kube::Error::Api(status) = &**source else {
            return None;
        };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        let busy = matches!(status.code, 429 | 503) && seconds > 0;
        busy.then(|| Duration::from_secs(seconds.into()).min(SOON_MAX))
    }

    /// The usual retry: wait for a change if the content was rejected, as long as a busy server asks, else retry soon.
    pub fn retry(&self) -> Retry {
        match (self.code(), self.retry_after()) {
            (Some(400 | 422), _) => Retry::At(Duration::from_mins(1)),
            (_, Some(wait)) => Retry::At(wait),
            (_, None) => Retry::Soon,
        }
    }
}

/// Awaits a call to the API server of this process, at most [`CALL_DEADLINE`]. `what` is e.g. `patching the status of
/// Module prod/base`.
pub async fn call<T>(
    what: impl Display,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    call_within(CALL_DEADLINE, what, request).await
}

/// Awaits a call, at most `deadline` in total.
pub async fn call_within<T>(
    deadline: Duration,
    what: impl Display,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(deadline, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(CallError::Api {
            what: what.to_string(),
            source: Box::new(source),
        }),
        Err(_elapsed) => Err(CallError::Deadline {
            what: what.to_string(),
            after: deadline,
        }),
    }
}

/// An error with its causes, for a condition or a log line: `what: cause: cause`, without repetition, with the API
/// server's own message.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let (text, last) = message(error);
        let text = without_noise(&text, error.source().is_some());
        if !text.is_empty() && !parts.last().is_some_and(|before| before.contains(text)) {
            parts.push(text.to_owned());
        }
        next = if last { None } else { error.source() };
    }
    parts.join(": ")
}

/// Removes what libraries say to programmers rather than to operators: the step of a client before its cause, links to
/// manuals.
fn without_noise(text: &str, has_cause: bool) -> &str {
    if has_cause && text.starts_with("client error (") && text.ends_with(')') {
        return "";
    }
    text.split_once(": https://docs.rs/")
        .map_or(text, |(message, _manual)| message)
}

/// The message of one error of a chain, and whether it includes that of its causes.
fn message(error: &(dyn Error + 'static)) -> (String, bool) {
    if let Some(error) = error.downcast_ref::<watcher::Error>() {
        return match error {
            watcher::Error::InitialListFailed(_) => ("listing failed".to_owned(), false),
            watcher::Error::WatchStartFailed(_) => ("the watch could not be started".to_owned(), false),
            watcher::Error::WatchError(status) => (status.message.clone(), true),
            watcher::Error::WatchFailed(_) => ("the watch was interrupted".to_owned(), false),
            watcher::Error::NoResourceVersion => (error.to_string(), true),
        };
    }
    match error.downcast_ref::<kube::Error>().or_else(|| {
        // `Box<kube::Error>` as a source is another type than `kube::Error`.
        error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref)
    }) {
        Some(kube::Error::Api(status)) if status.message.is_empty() => {
            (format!("{} ({})", status.reason, status.code), true)
        }
        Some(kube::Error::Api(status)) => (status.message.clone(), true),
        // Our own limits and rejections are complete messages.
        Some(kube::Error::Service(source))
            if source.is::<BoundError>() || source.is::<NotLeading>() || source.is::<TooSlow>() =>
        {
            (source.to_string(), true)
        }
        // Also ours: a name that cannot be part of a URL.
        Some(kube::Error::BuildRequest(request::Error::Validation(words))) => (words.clone(), true),
        Some(kube::Error::Service(_) | kube::Error::HyperError(_)) => {
            ("the API server could not be reached".to_owned(), false)
        }
        Some(kube::Error::SerdeError(_)) => (
            "the response is not from a Kubernetes API server: it cannot be parsed".to_owned(),
            true,
        ),
        // A plugin's output may be a token: only its error output is shown.
        Some(kube::Error::Auth(AuthError::AuthExecRun { out, .. })) => {
            let complaint = String::from_utf8_lossy(&out.stderr);
            let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
            let detail = last.map_or_else(String::new, |last| format!(": {}", bounded(last, COMPLAINT)));
            (
                format!(
                    "the credential plugin of the kubeconfig ended with {}{detail}",
                    out.status
                ),
                true,
            )
        }
        _ => (error.to_string(), false),
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_costs_its_deadline_and_no_more() {
        let started = tokio::time::Instant::now();
        let silent = std::future::pending::<kube::Result<()>>();
        let error = call_within(Duration::from_secs(10), "reading Cluster eu-1", silent)
            .await
            .unwrap_err();
        assert_eq!(started.elapsed(), Duration::from_secs(10));
        assert_eq!(error_chain(&error), "reading Cluster eu-1: no answer within 10 s");
        assert!(error.is_unreachable());
    }

    #[tokio::test]
    async fn a_busy_server_is_left_alone_as_it_asks_but_not_for_a_day() {
        for (seconds, expect) in [
            (5, Retry::At(Duration::from_secs(5))),
            (86_400, Retry::At(Duration::from_secs(30))),
            (0, Retry::Soon),
        ] {
            let status = serde_json::json!({"status": "Failure", "code": 429, "details": {"retryAfterSeconds": seconds}});
            let status: Status = serde_json::from_value(status).unwrap();
            let busy = async { Err::<(), _>(kube::Error::Api(Box::new(status))) };
            let error = call("reading Cluster eu-1", busy).await.unwrap_err();
            assert_eq!(error.retry(), expect, "{seconds}");
        }
    }

    #[test]
    fn what_libraries_say_to_programmers_is_left_out() {
        #[derive(Debug, Error)]
        #[error("{0}")]
        struct Says(&'static str, #[source] Option<Box<Self>>);
        let check = |chain: &[&'static str], expect: &str| {
            let error = chain
                .iter()
                .rev()
                .fold(None, |cause, says| Some(Box::new(Says(says, cause))));
            assert_eq!(error_chain(&*error.unwrap()), expect, "{chain:?}");
        };
        check(
            &[
                "listing modules",
                "client error (Connect)",
                "tcp connect error",
                "Connection refused",
            ],
            "listing modules: tcp connect error: Connection refused",
        );
        check(
            &[
                "client error (SendRequest)",
                "client error (SendRequest)",
                "connection error",
                "peer closed connection without sending TLS close_notify: https://docs.rs/rustls/latest/rustls/manual/_03_howto/index.html#unexpected-eof",
            ],
            "connection error: peer closed connection without sending TLS close_notify",
        );
        check(&["client error (Canceled)"], "client error (Canceled)");
        check(
            &["cloning https://docs.rs/x", "refused"],
            "cloning https://docs.rs/x: refused",
        );
    }

    #[tokio::test]
    async fn an_answer_is_given_in_the_servers_words() {
        let status = Status::failure("clusters \"eu-1\" not found", "NotFound").with_code(404);
        let refused = async { Err::<(), _>(kube::Error::Api(Box::new(status))) };
        let error = call("reading Cluster eu-1", refused).await.unwrap_err();
        assert!(error.is_not_found());
        assert_eq!(
            error_chain(&error),
            "reading Cluster eu-1: clusters \"eu-1\" not found"
        );
    }
}
