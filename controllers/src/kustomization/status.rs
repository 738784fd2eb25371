//! The status: the progress of a run, in Flux's terms; and when to reconcile again.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    conditions::{Conditions, HEALTHY, PLAN, READY, SHARED_OBJECT, Status, find},
    evidence::{ASSUMED, Progress},
    flux::{self, Kustomization, KustomizationStatus},
    labels::{annotation, manager},
};
use muster_sync::inventory::Inventory;

use super::{
    Error, Kustomizations,
    declarers::Inventories,
    outcome::{Applied, Awaited, Failure, Line, ReconcileOutcome},
    settings::{Settings, UnsupportedSpec},
    work::{Aim, Phase, Run, Work},
};
use crate::{
    reconcile::Context,
    runtime::{Action, Api, Event, Key, status::patch_if_changed},
};

/// The jitter of intervals, so that a fleet does not reconcile in step.
const SPREAD: f64 = 0.05;

/// When a failure that is likely to be transient is retried, unless the spec says sooner.
const SOON: Duration = Duration::from_secs(10);

/// The object as last read or written, and the only writer of its status.
pub(super) struct Writer {
    object: Kustomization,
    context: Context,
    inventories: Arc<Inventories>,
    /// The progress of its plan, once known.
    pub(super) plan: Option<Line>,
}

impl Writer {
    pub(super) fn new(object: &Kustomization, kustomizations: &Kustomizations) -> Self {
        Self {
            object: object.clone(),
            context: kustomizations.context.clone(),
            inventories: Arc::clone(&kustomizations.inventories),
            plan: None,
        }
    }

    pub(super) fn object(&self) -> &Kustomization {
        &self.object
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn status(&self) -> KustomizationStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// The objects that are recorded.
    pub(super) fn inventory(&self) -> Inventory {
        Inventory::from_status(
            self.object
                .status
                .as_ref()
                .and_then(|status| status.inventory.as_ref()),
        )
    }

    /// Writes a status over the last known version; sends nothing if only times would change.
    pub(super) async fn write(&mut self, status: KustomizationStatus) -> Result<(), Error> {
        let api = Api::namespaced(
            self.context.client.clone(),
            &self.object.namespace().unwrap_or_default(),
        );
        let old = self.object.status.as_ref();
        let written = patch_if_changed(&api, &self.object, old, &status, manager::CONTROLLER).await?;
        if let Some(written) = written {
            self.object = written;
        }
        self.inventories.wrote(&self.object);
        Ok(())
    }

    fn generation(&self) -> i64 {
        self.object.metadata.generation.unwrap_or_default()
    }

    /// The status with these conditions. Healthy, SharedObject and Plan keep their previous content and generation,
    /// unless the new conditions have them.
    fn with(&self, mut status: KustomizationStatus, conditions: &Conditions) -> KustomizationStatus {
        let before = std::mem::take(&mut status.conditions);
        let planned = self.plan.as_ref().map(|plan| {
            conditions
                .clone()
                .with(PLAN, plan.status, &plan.reason, &plan.text)
        });
        let conditions = planned.as_ref().unwrap_or(conditions);
        status.conditions = conditions.merge(&before, self.generation(), self.context.clock.now());
        if find(&status.conditions, HEALTHY).is_none() {
            status.conditions.extend(find(&before, HEALTHY).cloned());
        }
        if find(&status.conditions, SHARED_OBJECT).is_none() {
            status.conditions.extend(find(&before, SHARED_OBJECT).cloned());
        }
        if find(&status.conditions, PLAN).is_none()
            && self.object.annotations().contains_key(annotation::PLAN)
        {
            status.conditions.extend(find(&before, PLAN).cloned());
        }
        status
    }

    /// The status with the reconcile request handled.
    fn handled(&self) -> KustomizationStatus {
        let mut status = self.status();
        if let Some(requested) = self.object.annotations().get(annotation::RECONCILE_REQUESTED_AT) {
            status.last_handled_reconcile_at = Some(requested.clone());
        }
        status
    }

    /// The note about objects that others manage.
    fn shared(&self) -> Option<String> {
        let conditions = &self.object.status.as_ref()?.conditions;
        find(conditions, SHARED_OBJECT).map(|shared| shared.message.clone())
    }

    fn ready(&self) -> Option<(String, String)> {
        let conditions = &self.object.status.as_ref()?.conditions;
        find(conditions, READY).map(|ready| (ready.status.clone(), ready.reason.clone()))
    }
}

/// The status before the first object is applied: the recorded ids and, for a new aim, what is being attempted.
pub(super) fn begun(writer: &Writer, work: &Work, inventory: flux::Inventory) -> KustomizationStatus {
    let mut status = writer.status();
    status.inventory = Some(inventory);
    if !work.is_new {
        return status;
    }
    let revision = &work.aim.revision;
    status.last_attempted_revision = Some(revision.clone());
    let timeout = to_api_duration(work.settings.timeout);
    let conditions = Conditions::ready(Status::Unknown, "Progressing", "Reconciliation in progress")
        .reconciling(
            "Progressing",
            format!("Applying revision {revision} with a timeout of {timeout}"),
        );
    // Until the attempt is confirmed, the health of what is applied is unknown, also after a restart and whatever Ready
    // reports next.
    let healthy = find(&status.conditions, HEALTHY).is_some() || work.settings.checks_health();
    let conditions = if healthy {
        conditions.with(
            HEALTHY,
            Status::Unknown,
            "Progressing",
            "Health check in progress",
        )
    } else {
        conditions
    };
    writer.with(status, &conditions)
}

/// Writes the result and returns when to reconcile again.
pub(super) async fn conclude(
    writer: &mut Writer,
    outcome: ReconcileOutcome,
    kustomizations: &Kustomizations,
) -> Result<Action, Error> {
    if let Some(status) = status_of_outcome(writer, &outcome) {
        say(writer, status, outcome.changes()).await?;
    }
    Ok(next(&Key::of(writer.object()), outcome, kustomizations))
}

/// The status for an outcome; `None` if there is nothing to report.
fn status_of_outcome(writer: &Writer, outcome: &ReconcileOutcome) -> Option<KustomizationStatus> {
    Some(match outcome {
        ReconcileOutcome::Idle | ReconcileOutcome::Gone | ReconcileOutcome::Rest { .. } => return None,
        ReconcileOutcome::Refused(refusal) => refused(writer, refusal),
        ReconcileOutcome::Waiting { reason, message, .. } => waiting(writer, reason, message),
        ReconcileOutcome::Finalizing {
            failed,
            message,
            inventory,
            ..
        } => KustomizationStatus {
            inventory: Some(inventory.clone()),
            ..if *failed {
                waiting(writer, "PruneFailed", message)
            } else {
                going(writer, message)
            }
        },
        ReconcileOutcome::Succeeded { aim, report, .. } => succeeded(writer, aim, report),
        ReconcileOutcome::Checking {
            aim,
            timeout,
            awaited,
            report,
            ..
        } => checking(writer, aim, *timeout, awaited, report),
        ReconcileOutcome::Stepping {
            aim,
            message,
            progress,
            ..
        } => stepping(writer, aim, message, progress),
        ReconcileOutcome::Failed { aim, failure, .. } => failed(writer, aim, failure),
    })
}

/// When to reconcile again; remembers what a later check needs.
fn next(key: &Key, outcome: ReconcileOutcome, kustomizations: &Kustomizations) -> Action {
    let now = kustomizations.context.clock.now();
    match outcome {
        ReconcileOutcome::Idle
        | ReconcileOutcome::Refused(_)
        | ReconcileOutcome::Waiting { after: None, .. } => Action::await_change(),
        ReconcileOutcome::Gone => {
            kustomizations.runs.remove(key);
            Action::await_change()
        }
        ReconcileOutcome::Rest { until } => wake(key, between(now, until), kustomizations),
        ReconcileOutcome::Waiting {
            after: Some(after), ..
        }
        | ReconcileOutcome::Finalizing { after, .. } => Action::requeue(after),
        // The plan in memory has its progress; the run is due again.
        ReconcileOutcome::Stepping { after, .. } => {
            kustomizations.runs.unrest(key);
            Action::requeue(after)
        }
        ReconcileOutcome::Succeeded { aim, settings, .. } => {
            rest(key, aim, settings.interval, kustomizations)
        }
        ReconcileOutcome::Checking {
            aim,
            since,
            watch,
            wanted,
            after,
            ..
        } => {
            let phase = Phase::Checking { since, watch, wanted };
            kustomizations.runs.put(key.clone(), Run { aim, phase });
            wake(key, after, kustomizations)
        }
        ReconcileOutcome::Failed {
            aim,
            settings,
            failure,
        } => rest(key, aim, retry_after(&settings, &failure), kustomizations),
    }
}

/// Remembers when the run is due again.
fn rest(key: &Key, aim: Aim, wait: Duration, kustomizations: &Kustomizations) -> Action {
    let context = &kustomizations.context;
    let wait = match kustomizations.runs.plan_due(key) {
        Some(due) => due.min(wait),
        None => context.jitter.spread(wait, SPREAD),
    };
    // Only a wait of thousands of years could exceed the range of timestamps.
    let until = context.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX);
    kustomizations.runs.put(
        key.clone(),
        Run {
            aim,
            phase: Phase::Resting { until },
        },
    );
    wake(key, wait, kustomizations)
}

/// Requeues after that time, or sooner if a running Job might be gone by then.
fn wake(key: &Key, wait: Duration, kustomizations: &Kustomizations) -> Action {
    let pace = kustomizations.runs.pace(key).unwrap_or(wait);
    Action::requeue(wait.min(pace))
}

/// The time from one to the other; zero if negative, as after a step of the clock.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn retry_after(settings: &Settings, failure: &Failure) -> Duration {
    if failure.soon {
        settings.retry_interval.min(SOON)
    } else {
        settings.retry_interval
    }
}

/// Writes the status, and an event if Ready changed or something was changed in the cluster.
async fn say(writer: &mut Writer, status: KustomizationStatus, changes: &str) -> Result<(), Error> {
    let (before, shared) = (writer.ready(), writer.shared());
    writer.write(status).await?;
    let events = writer.context.events.clone();
    if let Some(note) = writer.shared().filter(|note| Some(note) != shared.as_ref()) {
        events
            .publish(writer.object(), Event::normal(SHARED_OBJECT, "Apply", note))
            .await;
    }
    if !changes.is_empty() {
        let event = Event::normal("ReconciliationSucceeded", "Apply", changes);
        events.publish(writer.object(), event).await;
    }
    let Some(ready) = find(&writer.status().conditions, READY).cloned() else {
        return Ok(());
    };
    if before == writer.ready() || ready.status == "Unknown" {
        return Ok(());
    }
    let event = match ready.status.as_str() {
        "True" => Event::normal(ready.reason, "Reconcile", ready.message),
        _ => Event::warning(ready.reason, "Reconcile", ready.message),
    };
    events.publish(writer.object(), event).await;
    Ok(())
}

fn succeeded(writer: &Writer, aim: &Aim, report: &Applied) -> KustomizationStatus {
    let mut status = writer.handled();
    if let Some(inventory) = &report.inventory {
        status.inventory = Some(inventory.clone());
    }
    status.observed_generation = Some(aim.generation);
    status.last_attempted_revision = Some(aim.revision.clone());
    status.last_applied_revision = Some(aim.revision.clone());
    let message = format!("Applied revision: {}", aim.revision);
    let conditions = Conditions::ready(Status::True, "ReconciliationSucceeded", message);
    let mut conditions = shared(&mut status, conditions, report);
    if report.checked {
        conditions = healthy(conditions, report);
    } else {
        // Nothing requests it any more.
        status.conditions.retain(|condition| condition.type_ != HEALTHY);
    }
    writer.with(status, &conditions)
}

/// Adds the result of the health check to the conditions.
fn healthy(conditions: Conditions, report: &Applied) -> Conditions {
    match &report.assumed {
        None => conditions.with(HEALTHY, Status::True, "Succeeded", "Health check passed"),
        Some(assumed) => conditions.with(HEALTHY, Status::True, ASSUMED, assumed.to_string()),
    }
}

/// Adds to the conditions the objects that others manage, as found by applying.
fn shared(status: &mut KustomizationStatus, conditions: Conditions, report: &Applied) -> Conditions {
    // A health check applies nothing.
    if report.inventory.is_some() {
        status
            .conditions
            .retain(|condition| condition.type_ != SHARED_OBJECT);
    }
    match &report.shared {
        Some(note) => conditions.with(SHARED_OBJECT, Status::True, "AsDeclared", note),
        None => conditions,
    }
}

fn checking(
    writer: &Writer,
    aim: &Aim,
    timeout: Duration,
    awaited: &Awaited,
    report: &Applied,
) -> KustomizationStatus {
    let mut status = writer.status();
    if let Some(inventory) = &report.inventory {
        status.inventory = Some(inventory.clone());
    }
    // A failure at exactly this aim that is being retried stays reported until the result is known.
    let attempted = status.last_attempted_revision.as_deref() == Some(&aim.revision);
    let failed_before = find(&status.conditions, READY).is_some_and(|ready| {
        let same = match awaited {
            Awaited::Health(_) => ready.reason == "HealthCheckFailed",
            Awaited::Termination(awaited) => ready.reason == "PruneFailed" && ready.message.contains(awaited),
        };
        same && ready.observed_generation == Some(aim.generation)
    });
    if attempted && failed_before {
        return status;
    }
    status.last_attempted_revision = Some(aim.revision.clone());
    let conditions = match awaited {
        Awaited::Health(summary) => {
            let message = format!(
                "Running health checks for revision {} with a timeout of {}: {summary}",
                aim.revision,
                to_api_duration(timeout)
            );
            let conditions = Conditions::ready(Status::Unknown, "Progressing", "Reconciliation in progress");
            let in_progress = report
                .progress
                .as_ref()
                .map_or_else(|| "Health check in progress".to_owned(), ToString::to_string);
            shared(&mut status, conditions, report)
                .with(HEALTHY, Status::Unknown, "Progressing", in_progress)
                .reconciling("Progressing", message)
        }
        Awaited::Termination(awaited) => {
            let conditions = Conditions::ready(Status::Unknown, "Progressing", awaited);
            let conditions = shared(&mut status, conditions, report).reconciling("Progressing", awaited);
            if report.checked {
                healthy(conditions, report)
            } else {
                conditions
            }
        }
    };
    writer.with(status, &conditions)
}

fn stepping(writer: &Writer, aim: &Aim, message: &str, progress: &Progress) -> KustomizationStatus {
    // A run takes minutes, and its interim reports already handle the request.
    let mut status = writer.handled();
    status.last_attempted_revision = Some(aim.revision.clone());
    let conditions = Conditions::ready(Status::Unknown, "Progressing", message)
        .with(HEALTHY, Status::Unknown, "Progressing", progress.to_string())
        .reconciling("Progressing", message);
    writer.with(status, &conditions)
}

fn failed(writer: &Writer, aim: &Aim, failure: &Failure) -> KustomizationStatus {
    let mut status = writer.handled();
    if let Some(inventory) = &failure.inventory {
        status.inventory = Some(inventory.clone());
    }
    if failure.reason != "ArtifactFailed" {
        status.last_attempted_revision = Some(aim.revision.clone());
    }
    let mut conditions = Conditions::ready(Status::False, failure.reason, &failure.message)
        .reconciling("ProgressingWithRetry", &failure.message);
    if failure.reason == SHARED_OBJECT {
        conditions = conditions.with(SHARED_OBJECT, Status::True, "Differs", &failure.message);
    }
    if failure.reason == "HealthCheckFailed" {
        conditions = conditions.with(HEALTHY, Status::False, failure.reason, &failure.message);
    }
    writer.with(status, &conditions)
}

fn refused(writer: &Writer, refusal: &UnsupportedSpec) -> KustomizationStatus {
    let mut status = writer.handled();
    status.observed_generation = Some(writer.generation());
    let conditions = Conditions::ready(Status::False, refusal.reason, &refusal.message)
        .stalled(refusal.reason, &refusal.message);
    writer.with(status, &conditions)
}

fn waiting(writer: &Writer, reason: &str, message: &str) -> KustomizationStatus {
    let conditions =
        Conditions::ready(Status::False, reason, message).reconciling("ProgressingWithRetry", message);
    writer.with(writer.handled(), &conditions)
}

fn going(writer: &Writer, message: &str) -> KustomizationStatus {
    let conditions =
        Conditions::ready(Status::Unknown, "Progressing", message).reconciling("Progressing", message);
    writer.with(writer.handled(), &conditions)
}

fn to_api_duration(time: Duration) -> muster_api::Duration {
    // A time of more than 500 million years cannot be in a spec.
    muster_api::Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
