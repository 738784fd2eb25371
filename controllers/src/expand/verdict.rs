//! The verdict of a row: what its Kustomization's status says about it, and whose fault a failure is.
//!
//! Pure: one table, read from the top. Asked only about a Kustomization that is as derived, so that what it says is about this row.
//!
//! Invariant: a row is `succeeded` only on a report about the present generation that names the row's commit.
//! Invariant: what is unknown, in progress, or about another generation is no verdict: the row is `updating`, unless it was told already what
//! came of it (`decide`). Assemblages know no deadlines.

use muster_api::{
    assemblage::{FailureClass, SyncPhase},
    evidence::{Assumed, Progress},
    plan::PlanReport,
};

use super::seen::{Ready, Report};
use crate::kustomization::outcome::PLAN_FAILED;

/// What a verdict is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The generation of the Kustomization's spec.
    pub generation: i64,
    /// What its controller reports.
    pub report: &'a Report,
    /// The commit of the row.
    pub commit: &'a str,
    /// Why the source cannot be relied on, if it cannot.
    pub source: Option<&'a str>,
    /// Why the cluster is away, or was since the row was written; for Kustomizations that are carried out over the network.
    pub away: Option<&'a str>,
}

/// What a row has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Where the row stands: succeeded, failed or updating.
    pub phase: SyncPhase,
    /// Whose fault it is, if something is wrong.
    pub class: Option<FailureClass>,
    /// A failure that will not go away by waiting.
    pub terminal: bool,
    /// The word of the controller that carries it out.
    pub reason: Option<String>,
    /// What it says.
    pub message: Option<String>,
    /// What was taken to be healthy without evidence.
    pub assumed: Option<Assumed>,
    /// How far those of its objects are that roll something out themselves.
    pub progress: Option<Progress>,
    /// Where its plan stands.
    pub plan: Option<PlanReport>,
}

/// Words of a network, an API server or a proxy that is away: nothing of this is known about the content.
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
    // How kube-apiserver begins its 500s, among them a webhook that cannot be called (one that denies says so otherwise).
    "internal error occurred",
    "failed calling webhook",
    "too many requests",
    "currently unable to handle the request",
    "service unavailable",
    "failed to build kube client",
    "unauthorized",
];

/// A deadline that passed while talking to the API; in the report of a health check it would be the deadline of the check itself.
const DEADLINE_WORDS: &str = "context deadline exceeded";

/// A pruned object that is not gone: a finalizer in the cluster holds it, which says nothing about the version that no longer has it.
const TERMINATION_WORDS: &str = "waiting for the termination of ";

/// Draws the verdict.
pub fn verdict(evidence: &Evidence<'_>) -> Verdict {
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
    /// Its controller is at work on the present generation, and has no verdict yet. That it waits for what it pruned is one.
    pub fn is_looking_again(&self) -> bool {
        let ready = self.report.ready.as_ref();
        ready.is_some_and(|ready| {
            ready.status.is_none() && ready.generation == Some(self.generation) && !ready.awaits_termination()
        })
    }

    /// The present generation was carried out once, at the row's commit.
    pub fn is_carried_out(&self) -> bool {
        let current = self.report.observed_generation == Some(self.generation);
        let applied = self.report.applied_commit.as_deref() == Some(self.commit);
        current && applied
    }
}

impl Ready {
    /// Whether a pruned object that is not gone is all that is waited for.
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
    /// A run that failed is not tried again by itself.
    const fn of_plan(class: FailureClass) -> Self {
        match class {
            FailureClass::Revision => Self::Revision { terminal: true },
            FailureClass::Unit => Self::Unit,
            FailureClass::Infra => Self::Infra,
        }
    }
}

/// The class of a failure by its reason and its message in lower case; `None` for words that say nothing about the row.
#[expect(
    clippy::match_same_arms,
    reason = "a table that is read from the top: the order of its lines decides"
)]
fn class(reason: &str, text: &str) -> Option<Class> {
    let connection = CONNECTION_WORDS.iter().any(|word| text.contains(word));
    Some(match reason {
        "DependencyNotReady" | "HealthCheckCanceled" => Class::Infra,
        // The second word is muster's own: a path without objects, where the revision before had some.
        "BuildFailed" | "EmptyWouldPruneAll" => Class::Revision { terminal: true },
        "ArtifactFailed" if text.contains("path not found") => Class::Revision { terminal: true },
        "ArtifactFailed" => Class::Infra,
        // Muster's own word: another Kustomization of this cluster holds an object, and declares it differently.
        "SharedObject" => Class::Unit,
        // An object whose status could be read as Failed proves that the cluster answered, whatever its message quotes.
        "HealthCheckFailed" if text.contains("status: 'failed'") => Class::Revision { terminal: true },
        _ if connection => Class::Infra,
        "HealthCheckFailed" => Class::Revision { terminal: false },
        "ReconciliationFailed" | "PruneFailed" if text.contains(DEADLINE_WORDS) => Class::Infra,
        "PruneFailed" if text.contains(TERMINATION_WORDS) => Class::Infra,
        // muster's own: earlier releases applied such a name, and what they applied stays.
        "PruneFailed" | "MisreadName" => Class::Unit,
        "ReconciliationFailed" if is_terminating(text) => Class::Infra,
        "ReconciliationFailed" if is_about_the_cluster(text) => Class::Unit,
        "ReconciliationFailed" => Class::Revision { terminal: false },
        _ => return None,
    })
}

/// An object that is to be applied and is still being deleted, in the words of the built-in sync: something in the cluster holds it.
fn is_terminating(text: &str) -> bool {
    text.contains("is being deleted; it is created again once it is gone")
        || text.contains("was deleted to be created again, and is not gone yet")
}

/// Rights, quota, or a namespace that is not there. A field that may not change is 'Forbidden' too, but that is the content's fault.
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

    /// Something that is not the row's fault is away.
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

/// The failing object first. A health check's report wraps it in what the reader knows already: that a health check failed, early or after
/// a time, or that one is running for a revision. Of that only the time is kept; words of another form stay as they are.
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
