//! The verdict of a row: what its Kustomization's status means for the row, and the class of a failure.
//!
//! Pure: one table, read from the top. Called only for a Kustomization that is as derived, so its status is about this
//! row.
//!
//! Invariant: a row is `succeeded` only on a report about the current generation that names the row's commit.
//! Invariant: what is unknown, in progress, or about another generation is not a verdict: the row is `updating`, unless
//! its result was reported before (`decide`). Assemblages know no deadlines.

use muster_api::{
    assemblage::{FailureClass, SyncPhase},
    evidence::{Assumed, Progress},
    plan::PlanReport,
};

use super::observed::{Ready, Report};
use crate::kustomization::outcome::PLAN_FAILED;

/// The input of a verdict.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The generation of the Kustomization's spec.
    pub generation: i64,
    /// The status that its controller reports.
    pub report: &'a Report,
    /// The commit of the row.
    pub commit: &'a str,
    /// Why the source cannot be relied on, if so.
    pub source: Option<&'a str>,
    /// Why the cluster is unreachable, or was since the row was written; for Kustomizations that are applied over the
    /// network.
    pub away: Option<&'a str>,
}

/// The result of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The phase: succeeded, failed or updating.
    pub phase: SyncPhase,
    /// The class of the failure, if something is wrong.
    pub class: Option<FailureClass>,
    /// A failure that does not pass by waiting.
    pub terminal: bool,
    /// The reason that its controller reports.
    pub reason: Option<String>,
    /// The message for the row.
    pub message: Option<String>,
    /// The objects assumed healthy without evidence.
    pub assumed: Option<Assumed>,
    /// The progress of those of its objects that perform a rollout themselves.
    pub progress: Option<Progress>,
    /// The progress of its plan.
    pub plan: Option<PlanReport>,
}

/// Messages of an unreachable network, API server or proxy: they say nothing about the content.
const CONNECTION_WORDS: &[&str] = &[
    "connection refused",
    "connection reset",
    "connection lost",
    "connection closed",
    "could not be reached",
    "i/o timeout",
    "no answer within",
    "no route to host",
    "no such host",
    "network is unreachable",
    "broken pipe",
    "unexpected eof",
    "tls handshake",
    "tls: ",
    "x509: ",
    "client.timeout exceeded",
    "client rate limiter",
    "etcdserver: ",
    // The prefix of kube-apiserver's 500s, among them a webhook that cannot be called (one that denies has another
    // message).
    "internal error occurred",
    "failed calling webhook",
    "too many requests",
    "currently unable to handle the request",
    "service unavailable",
    "failed to build kube client",
    "unauthorized",
];

/// A deadline that passed while calling the API; in the report of a health check it would be the deadline of the check
/// itself.
const DEADLINE_WORDS: &str = "context deadline exceeded";

/// A pruned object that is not gone: a finalizer in the cluster blocks it, which says nothing about the version that no
/// longer has the object.
const TERMINATION_WORDS: &str = "waiting for the termination of ";

/// Reaches the verdict.
pub fn row_verdict(evidence: &Evidence<'_>) -> Verdict {
    Verdict {
        plan: evidence.report.plan.as_ref().map(|plan| plan.report.clone()),
        ..of_conditions(evidence)
    }
}

fn of_conditions(evidence: &Evidence<'_>) -> Verdict {
    let Some(ready) = evidence
        .report
        .ready
        .as_ref()
        .filter(|ready| ready.generation == Some(evidence.generation))
    else {
        return match evidence.away {
            Some(away) => Verdict::waiting(None, away),
            None => Verdict::updating(),
        };
    };
    match ready.status {
        Some(true) => succeeded(evidence, ready),
        Some(false) => failed(evidence, ready),
        // No deadline of a rollout runs meanwhile.
        None if ready.awaits_termination() => Verdict::waiting(Some(ready), &ready.message),
        None => Verdict {
            progress: evidence.report.progress.clone(),
            reason: Some(ready.reason.clone()),
            message: Some(object_first(&ready.message)),
            ..Verdict::updating()
        },
    }
}

impl Evidence<'_> {
    /// The controller is reconciling the current generation and has no verdict yet. Waiting for a pruned object is a
    /// verdict.
    pub fn is_looking_again(&self) -> bool {
        let ready = self.report.ready.as_ref();
        ready.is_some_and(|ready| {
            ready.status.is_none() && ready.generation == Some(self.generation) && !ready.awaits_termination()
        })
    }

    /// The current generation was applied once, at the row's commit.
    pub fn is_carried_out(&self) -> bool {
        let current = self.report.observed_generation == Some(self.generation);
        let applied = self.report.applied_commit.as_deref() == Some(self.commit);
        current && applied
    }
}

impl Ready {
    /// Whether a pruned object that is not gone is the only thing waited for.
    fn awaits_termination(&self) -> bool {
        self.status.is_none() && self.message.starts_with(TERMINATION_WORDS)
    }
}

fn succeeded(evidence: &Evidence<'_>, ready: &Ready) -> Verdict {
    if !evidence.is_carried_out() {
        return Verdict::updating();
    }
    Verdict {
        phase: SyncPhase::Succeeded,
        reason: Some(ready.reason.clone()),
        message: evidence.report.shared.clone(),
        assumed: evidence.report.assumed.clone(),
        ..Verdict::updating()
    }
}

fn failed(evidence: &Evidence<'_>, ready: &Ready) -> Verdict {
    if let Some(away) = evidence.away.or(evidence.source) {
        return Verdict::waiting(Some(ready), away);
    }
    let text = ready.message.to_lowercase();
    let of_plan = evidence.report.plan.as_ref().and_then(|plan| plan.class);
    let of_plan = of_plan.filter(|_| ready.reason == PLAN_FAILED);
    match of_plan
        .map(Class::of_plan)
        .or_else(|| class(&ready.reason, &text))
    {
        Some(Class::Revision { terminal }) => Verdict::failed(ready, FailureClass::Revision, terminal),
        Some(Class::Unit) => Verdict::failed(ready, FailureClass::Unit, false),
        Some(Class::Infra) => Verdict::waiting(Some(ready), &ready.message),
        None => Verdict {
            reason: Some(ready.reason.clone()),
            message: Some(ready.message.clone()),
            ..Verdict::updating()
        },
    }
}

enum Class {
    Revision { terminal: bool },
    Unit,
    Infra,
}

impl Class {
    /// A failed run is not retried automatically.
    const fn of_plan(class: FailureClass) -> Self {
        match class {
            FailureClass::Revision => Self::Revision { terminal: true },
            FailureClass::Unit => Self::Unit,
            FailureClass::Infra => Self::Infra,
        }
    }
}

/// The class of a failure by its reason and its message in lower case; `None` for messages that say nothing about the
/// row.
#[expect(
    clippy::match_same_arms,
    reason = "a table that is read from the top: the order of its lines decides"
)]
fn class(reason: &str, text: &str) -> Option<Class> {
    let connection = CONNECTION_WORDS.iter().any(|word| text.contains(word));
    Some(match reason {
        "DependencyNotReady" | "HealthCheckCanceled" => Class::Infra,
        // The second one is muster's: a path without objects, while the previous revision had some.
        "BuildFailed" | "EmptyWouldPruneAll" => Class::Revision { terminal: true },
        "ArtifactFailed" if text.contains("path not found") => Class::Revision { terminal: true },
        "ArtifactFailed" => Class::Infra,
        // A message of muster: another Kustomization of this cluster manages an object, and declares it differently.
        "SharedObject" => Class::Unit,
        // An object whose status could be read as Failed proves that the cluster answered, whatever its message quotes.
        "HealthCheckFailed" if text.contains("status: 'failed'") => Class::Revision { terminal: true },
        _ if connection => Class::Infra,
        "HealthCheckFailed" => Class::Revision { terminal: false },
        "ReconciliationFailed" | "PruneFailed" if text.contains(DEADLINE_WORDS) => Class::Infra,
        "PruneFailed" if text.contains(TERMINATION_WORDS) => Class::Infra,
        // A message of muster: earlier releases applied such a name, and what they applied stays.
        "PruneFailed" | "MisreadName" => Class::Unit,
        "ReconciliationFailed" if is_terminating(text) => Class::Infra,
        "ReconciliationFailed" if is_about_the_cluster(text) => Class::Unit,
        "ReconciliationFailed" => Class::Revision { terminal: false },
        _ => return None,
    })
}

/// The built-in sync's message about an object that must be applied while it is still being deleted: something in the
/// cluster blocks it.
fn is_terminating(text: &str) -> bool {
    text.contains("is being deleted; it is created again once it is gone")
        || text.contains("was deleted to be re-created, but is not gone yet")
}

/// Permissions, quota, or a missing namespace. A change of an immutable field is 'Forbidden' too, but that is the
/// content's fault.
fn is_about_the_cluster(text: &str) -> bool {
    let refused =
        text.contains("is forbidden: ") || text.contains("(forbidden)") || text.contains("exceeded quota");
    let namespace = text.contains("namespace not found")
        || text.contains("namespaces \"") && text.contains("\" not found");
    refused || namespace
}

impl Verdict {
    const fn updating() -> Self {
        Self {
            phase: SyncPhase::Updating,
            class: None,
            terminal: false,
            reason: None,
            message: None,
            assumed: None,
            progress: None,
            plan: None,
        }
    }

    /// Something unavailable that is not the row's fault.
    fn waiting(ready: Option<&Ready>, what: &str) -> Self {
        Self {
            class: Some(FailureClass::Infra),
            reason: ready.map(|ready| ready.reason.clone()),
            message: Some(what.to_owned()),
            ..Self::updating()
        }
    }

    fn failed(ready: &Ready, class: FailureClass, terminal: bool) -> Self {
        Self {
            phase: SyncPhase::Failed,
            class: Some(class),
            terminal,
            reason: Some(ready.reason.clone()),
            message: Some(object_first(&ready.message)),
            assumed: None,
            progress: None,
            plan: None,
        }
    }
}

/// The failing object first. A health check's report wraps it in what the reader knows already: that a health check
/// failed, early or after a time, or that one is running for a revision. Of that only the time is kept; messages of
/// another form stay as they are.
fn object_first(message: &str) -> String {
    let bracketed = message
        .strip_suffix(']')
        .and_then(|message| message.split_once(": ["));
    if let Some((before, object)) = bracketed.filter(|(_, object)| object.contains(" status: '")) {
        let after = before
            .strip_prefix("health check failed after ")
            .and_then(|rest| rest.split(':').next());
        return after.map_or_else(|| object.to_owned(), |after| format!("{object} (after {after})"));
    }
    let running = message
        .strip_prefix("Running health checks for revision ")
        .and_then(|rest| rest.split_once(": "));
    running.map_or(message, |(_, object)| object).to_owned()
}
