//! Writes, by target, verb, and result.

use http::{Method, Request, header::CONTENT_TYPE};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// The target of a write.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Target {
    /// The API server of the process's own cluster.
    Own,
    /// A cluster of the registry.
    Cluster,
}

/// The verb of a write, in Kubernetes' terms. A dry run is a verb of its own.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Verb {
    /// `POST`.
    Create,
    /// `PUT`.
    Update,
    /// `PATCH`, except server-side apply.
    Patch,
    /// Server-side apply.
    Apply,
    /// `DELETE`, of one object or a collection.
    Delete,
    /// Any of them as a dry run.
    DryRun,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum WriteResult {
    /// The server accepted it.
    Done,
    /// The server rejected it.
    Refused,
    /// No response: it is unknown whether the server applied it.
    Unanswered,
    /// It was not sent: this process is no longer the leader.
    Withheld,
}

impl Verb {
    /// The verb of a request, if it is a write.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        let verb = match *request.method() {
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::DELETE => Self::Delete,
            Method::PATCH if is_apply(request) => Self::Apply,
            Method::PATCH => Self::Patch,
            _ => return None,
        };
        let is_dry_run = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("dryRun="));
        Some(if is_dry_run { Self::DryRun } else { verb })
    }
}

fn is_apply<B>(request: &Request<B>) -> bool {
    let content = request
        .headers()
        .get(CONTENT_TYPE)
        .map(http::HeaderValue::as_bytes);
    content.is_some_and(|content| content.starts_with(b"application/apply-patch"))
}

/// Writes the values of a closed set as label values.
macro_rules! words {
    ($set:ident { $($variant:ident => $word:literal),* }) => {
        impl EncodeLabelValue for $set {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
                let word = match self { $(Self::$variant => $word),* };
                EncodeLabelValue::encode(&word, encoder)
            }
        }
    };
}

words!(Target { Own => "own", Cluster => "cluster" });
words!(Verb {
    Create => "create", Update => "update", Patch => "patch", Apply => "apply", Delete => "delete", DryRun => "dry-run"
});
words!(WriteResult { Done => "done", Refused => "refused", Unanswered => "unanswered", Withheld => "withheld" });

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Label {
    target: Target,
    verb: Verb,
    outcome: WriteResult,
}

/// All writes of a process.
pub(super) struct Writes(Family<Label, Counter>);

impl Writes {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let writes = Family::default();
        registry.register(
            "muster_writes",
            "Write requests to API servers, by target (own, cluster), verb and outcome (done, refused, unanswered, withheld: no longer the leader)",
            writes.clone(),
        );
        Self(writes)
    }

    pub(super) fn begin(&self, target: Target, verb: Verb) -> Writing {
        Writing {
            counts: self.0.clone(),
            label: Label {
                target,
                verb,
                outcome: WriteResult::Unanswered,
            },
        }
    }
}

/// A write in flight. If dropped, for example by a deadline, it counts as unanswered.
pub struct Writing {
    counts: Family<Label, Counter>,
    label: Label,
}

impl Writing {
    /// Records the result of the write.
    pub fn ended(mut self, outcome: WriteResult) {
        self.label.outcome = outcome;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.counts.get_or_create(&self.label).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs() {
        let check = |method: &str, path: &str, content: &str, expect: Option<Verb>| {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", content);
            assert_eq!(
                Verb::of(&request.body(()).unwrap()),
                expect,
                "{method} {path} {content}"
            );
        };
        check("GET", "/api/v1/pods?watch=true", "", None);
        check("POST", "/api/v1/pods", "application/json", Some(Verb::Create));
        check("PUT", "/api/v1/pods/a", "application/json", Some(Verb::Update));
        check(
            "PATCH",
            "/api/v1/pods/a",
            "application/merge-patch+json",
            Some(Verb::Patch),
        );
        check(
            "PATCH",
            "/api/v1/pods/a?force=true",
            "application/apply-patch+yaml",
            Some(Verb::Apply),
        );
        check(
            "PATCH",
            "/api/v1/pods/a?dryRun=All",
            "application/apply-patch+yaml",
            Some(Verb::DryRun),
        );
        check("DELETE", "/api/v1/pods/a", "application/json", Some(Verb::Delete));
    }
}
