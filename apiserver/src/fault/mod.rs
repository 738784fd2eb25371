//! Fault injection: rules that tests add and remove while the server runs.
//!
//! A rule has a match ([`Match`]), a fault ([`Fault`]), how often it applies, and after how many requests. Rules are
//! evaluated in the order in which they were added; delays add up, the first response wins.

pub(crate) mod hostile;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::http::{Body, Caller, Verb, full};
use crate::status::ApiError;

/// The requests to which a rule applies; absent fields match all.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// The client's name (user of its credential, or the name of an in-process client).
    pub client: Option<String>,
    /// Part of the user agent.
    pub agent: Option<String>,
    /// The verbs; empty means all. Requests without a resource (discovery) have no verb and match only an empty list.
    pub verbs: Vec<Verb>,
    /// Part of the path, such as `/widgets/` or `/namespaces/default/`.
    pub path: Option<String>,
}

/// A kind of fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection is closed before the request has any effect.
    Refuse,
    /// The request is handled later.
    Delay(Duration),
    /// The request is answered with this code and has no effect.
    Status(Failure),
    /// The request takes effect, and the connection is closed before the response.
    DropResponse,
    /// The request takes effect, and the body of the response arrives one byte at a time, with this pause before each.
    Drip(Duration),
    /// The request is answered with a body of this many bytes and has no effect.
    Flood(u64),
}

/// A failure response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 409, as after a conflict with another writer.
    Conflict,
    /// 410, as if the resource version were no longer available.
    Expired,
    /// 429, with the seconds of `Retry-After`.
    TooManyRequests(u32),
    /// 500.
    Internal,
    /// 503.
    Unavailable,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The requests to which it applies.
    pub matching: Match,
    /// The fault.
    pub fault: Fault,
    /// How many matching requests pass before the first fault.
    pub after: u32,
    /// How often the fault happens; `None` is always.
    pub times: Option<u32>,
}

impl Rule {
    /// A rule that always applies to requests that match.
    pub fn always(matching: Match, fault: Fault) -> Self {
        Self {
            matching,
            fault,
            after: 0,
            times: None,
        }
    }

    /// A rule that applies `times` times.
    pub fn times(matching: Match, fault: Fault, times: u32) -> Self {
        Self {
            matching,
            fault,
            after: 0,
            times: Some(times),
        }
    }
}

/// Identifies a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(u64);

/// The rules of a server.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Vec<(RuleId, Rule)>>,
    next: AtomicU64,
    closings: watch::Sender<Arc<Match>>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Mutex::default(),
            next: AtomicU64::new(0),
            closings: watch::Sender::new(Arc::default()),
        }
    }
}

/// Result of the rules for one request.
#[derive(Debug)]
pub(crate) enum Verdict {
    Refuse,
    Delay(Duration),
    Answer(Box<ApiError>),
    DropResponse,
    Drip(Duration),
    Flood(u64),
}

impl Verdict {
    pub(crate) fn delay(&self) -> Option<Duration> {
        match self {
            Self::Delay(delay) => Some(*delay),
            _ => None,
        }
    }

    pub(crate) fn drip(&self) -> Option<Duration> {
        match self {
            Self::Drip(pause) => Some(*pause),
            _ => None,
        }
    }

    pub(crate) fn answer(&self) -> Option<http::Response<Body>> {
        let error = match self {
            Self::Answer(error) => error,
            Self::Flood(bytes) => return Some(http::Response::new(hostile::flood(*bytes))),
            _ => return None,
        };
        let crate::status::ErrorBody::Status(status) = &error.body else {
            return None;
        };
        let mut response = http::Response::new(full(status.to_string()));
        *response.status_mut() = http::StatusCode::from_u16(error.code).ok()?; // these codes are valid
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64() {
            response
                .headers_mut()
                .insert(http::header::RETRY_AFTER, seconds.into());
        }
        Some(response)
    }
}

impl Faults {
    /// Adds a rule.
    pub fn add(&self, rule: Rule) -> RuleId {
        let id = RuleId(self.next.fetch_add(1, Ordering::Relaxed));
        self.rules.lock().push((id, rule));
        id
    }

    /// Removes a rule; removing it twice is fine.
    pub fn remove(&self, id: RuleId) {
        self.rules.lock().retain(|(other, _)| *other != id);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.rules.lock().clear();
    }

    /// Closes the open watches that match; `path` is compared with the plural name, verbs are ignored.
    pub fn close_watches(&self, matching: Match) {
        self.closings.send_replace(Arc::new(matching));
    }

    pub(crate) fn closing(&self) -> Closing {
        Closing {
            receiver: self.closings.subscribe(),
        }
    }

    /// The fault for a request: evaluates all matching rules and counts their use.
    pub(crate) fn judge(&self, caller: &Caller, verb: Option<Verb>, path: &str) -> Vec<Verdict> {
        let mut rules = self.rules.lock();
        let mut verdicts = Vec::new();
        for (_, rule) in rules.iter_mut() {
            if !rule.matching.applies(caller, verb, path) {
                continue;
            }
            if rule.after > 0 {
                rule.after -= 1;
                continue;
            }
            if let Some(times) = &mut rule.times {
                *times = times.saturating_sub(1);
            }
            verdicts.push(rule.fault.verdict());
        }
        rules.retain(|(_, rule)| rule.times != Some(0));
        verdicts
    }
}

impl Match {
    /// All requests of one client.
    pub fn client(name: &str) -> Self {
        Self {
            client: Some(name.to_owned()),
            ..Self::default()
        }
    }

    fn applies(&self, caller: &Caller, verb: Option<Verb>, path: &str) -> bool {
        self.client.as_ref().is_none_or(|client| *client == caller.client)
            && self
                .agent
                .as_ref()
                .is_none_or(|agent| caller.agent.contains(agent.as_str()))
            && (self.verbs.is_empty() || verb.is_some_and(|verb| self.verbs.contains(&verb)))
            && self.path.as_ref().is_none_or(|part| path.contains(part.as_str()))
    }
}

impl Fault {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Refuse => Verdict::Refuse,
            Self::Delay(delay) => Verdict::Delay(*delay),
            Self::Status(failure) => Verdict::Answer(Box::new(failure.error())),
            Self::DropResponse => Verdict::DropResponse,
            Self::Drip(pause) => Verdict::Drip(*pause),
            Self::Flood(bytes) => Verdict::Flood(*bytes),
        }
    }
}

impl Failure {
    fn error(self) -> ApiError {
        match self {
            Self::Unauthorized => ApiError::unauthorized(),
            Self::Forbidden => ApiError::new(403, "Forbidden", "forbidden by a fault rule", Value::Null),
            Self::Conflict => ApiError::new(
                409,
                "Conflict",
                "the object has been modified; please apply your changes to the latest version and try again",
                Value::Null,
            ),
            Self::Expired => ApiError::expired("The resourceVersion for the provided list is too old."),
            Self::TooManyRequests(seconds) => ApiError::new(
                429,
                "TooManyRequests",
                "Too many requests, please try again later.",
                serde_json::json!({"retryAfterSeconds": seconds}),
            ),
            Self::Internal => ApiError::new(
                500,
                "InternalError",
                "Internal error occurred: a fault rule",
                Value::Null,
            ),
            Self::Unavailable => {
                let text = "the server is currently unable to handle the request";
                ApiError::new(503, "ServiceUnavailable", text, Value::Null)
            }
        }
    }
}

/// Notifies a watch that it must close.
#[derive(Debug)]
pub(crate) struct Closing {
    receiver: watch::Receiver<Arc<Match>>,
}

impl Closing {
    /// Waits until this watch must close.
    pub(crate) async fn close_requested(&mut self, caller: &Caller, plural: &str) {
        loop {
            if self.receiver.changed().await.is_err() {
                return std::future::pending().await;
            }
            let matching = self.receiver.borrow_and_update().clone();
            if (Match {
                verbs: Vec::new(),
                ..(*matching).clone()
            })
            .applies(caller, None, plural)
            {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_begin_late_and_are_used_up() {
        let faults = Faults::default();
        faults.add(Rule {
            after: 1,
            ..Rule::times(Match::client("a"), Fault::Refuse, 2)
        });
        let caller = |name: &str| Caller {
            client: name.to_owned(),
            agent: String::new(),
        };
        let hits: Vec<usize> = ["a", "b", "a", "a", "a"]
            .iter()
            .map(|name| faults.judge(&caller(name), Some(Verb::Get), "/api/v1/pods").len())
            .collect();
        assert_eq!(hits, [0, 0, 1, 1, 0]);
    }
}
