//! A total deadline for each call to an API server, and errors in words for people.
//!
//! A silent server never answers and a dripping one never ends: a read timeout helps against the first only, a total deadline against both.

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

/// The deadline of a call to the API server that the process belongs to.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// Bytes of what a credential plugin complains of.
const COMPLAINT: usize = 300;

/// A call that did not succeed.
#[derive(Debug, Error)]
pub enum CallError {
    /// No complete answer in time; whether the server acted is unknown.
    #[error("{what}: no answer within {} s", .after.as_secs())]
    Deadline {
        /// What was being done, to what.
        what: String,
        /// The deadline.
        after: Duration,
    },
    /// The server refused, or could not be reached.
    #[error("{what}")]
    Api {
        /// What was being done, to what.
        what: String,
        /// The answer.
        #[source]
        source: Box<kube::Error>,
    },
}

impl CallError {
    /// The HTTP status code that the server answered, if it did.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Deadline { .. } => None,
            Self::Api { source, .. } => code(source),
        }
    }

    /// The object, or its kind, is not there (404).
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Discovery did not find the kind (404 without an HTTP 404).
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(**source, kube::Error::Discovery(_)))
    }

    /// Somebody was faster (409): observe again.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The server understood and refused the content (422).
    pub fn is_invalid(&self) -> bool {
        self.code() == Some(422)
    }

    /// The credential is not accepted (401) or not allowed to (403).
    pub fn is_refused_credential(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// The words of a server that refuses what was sent, and would refuse it again: no right to it, a quota, a webhook, a rule of its
    /// schema, its size. Busy, broken, and silent servers refuse nothing; neither is a conflict a refusal.
    pub fn refusal(&self) -> Option<&str> {
        let Self::Api { source, .. } = self else {
            return None;
        };
        match &**source {
            kube::Error::Api(status) if matches!(status.code, 400 | 403 | 413 | 422) => Some(&status.message),
            _ => None,
        }
    }

    /// Nothing was answered: the connection failed, or the deadline passed.
    pub fn is_unreachable(&self) -> bool {
        self.code().is_none() && !self.is_unknown_kind()
    }

    /// How long the server asks to be left alone (`Retry-After`), as far as that is honoured: nobody parks us for a day.
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

    /// What usually follows: wait for a change after a refusal of the content, as long as a busy server asks for, else try again soon.
    pub fn retry(&self) -> Retry {
        match (self.code(), self.retry_after()) {
            (Some(400 | 422), _) => Retry::At(Duration::from_mins(1)),
            (_, Some(wait)) => Retry::At(wait),
            (_, None) => Retry::Soon,
        }
    }
}

/// Awaits a call to the API server of this process, at most [`CALL_DEADLINE`]. `what` is e.g. `patching the status of Module prod/base`.
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

/// An error with its causes, for a condition or a log line: `what: cause: cause`, each said once, an API server's answer in its own words.
pub fn explain(error: &(dyn Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let (text, last) = words(error);
        let text = without_noise(&text, error.source().is_some());
        if !text.is_empty() && !parts.last().is_some_and(|before| before.contains(text)) {
            parts.push(text.to_owned());
        }
        next = if last { None } else { error.source() };
    }
    parts.join(": ")
}

/// What libraries say to programmers, and not to whoever operates a cluster: the step of a client that a cause follows, links to manuals.
fn without_noise(text: &str, has_cause: bool) -> &str {
    if has_cause && text.starts_with("client error (") && text.ends_with(')') {
        return "";
    }
    text.split_once(": https://docs.rs/")
        .map_or(text, |(said, _manual)| said)
}

/// One error of a chain, and whether it has said what its causes say.
fn words(error: &(dyn Error + 'static)) -> (String, bool) {
    if let Some(error) = error.downcast_ref::<watcher::Error>() {
        return match error {
            watcher::Error::InitialListFailed(_) => ("listing failed".to_owned(), false),
            watcher::Error::WatchStartFailed(_) => ("the watch could not begin".to_owned(), false),
            watcher::Error::WatchError(status) => (status.message.clone(), true),
            watcher::Error::WatchFailed(_) => ("the watch broke off".to_owned(), false),
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
        // Our own bounds, and our own refusal, say it all.
        Some(kube::Error::Service(source))
            if source.is::<BoundError>() || source.is::<NotLeading>() || source.is::<TooSlow>() =>
        {
            (source.to_string(), true)
        }
        // Ours, too: a name that cannot be part of a URL.
        Some(kube::Error::BuildRequest(request::Error::Validation(words))) => (words.clone(), true),
        Some(kube::Error::Service(_) | kube::Error::HyperError(_)) => {
            ("the API server could not be reached".to_owned(), false)
        }
        Some(kube::Error::SerdeError(_)) => (
            "what answers is no Kubernetes API server: the answer is not of its form".to_owned(),
            true,
        ),
        // What a plugin prints may be a token: only what it complains of is told.
        Some(kube::Error::Auth(AuthError::AuthExecRun { out, .. })) => {
            let complaint = String::from_utf8_lossy(&out.stderr);
            let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
            let told = last.map_or_else(String::new, |last| format!(": {}", bounded(last, COMPLAINT)));
            (
                format!(
                    "the credential plugin of the kubeconfig ended with {}{told}",
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
        assert_eq!(explain(&error), "reading Cluster eu-1: no answer within 10 s");
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
            assert_eq!(explain(&*error.unwrap()), expect, "{chain:?}");
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
            explain(&error),
            "reading Cluster eu-1: clusters \"eu-1\" not found"
        );
    }
}
