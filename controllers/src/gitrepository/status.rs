//! The status: what was fetched and the result, in Flux's terms.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use muster_api::{
    conditions::{Conditions, Status},
    flux::{Artifact, GitRepository, GitRepositoryStatus, commit_of},
    labels::{annotation, manager},
    reasons::Reason,
};
use muster_sync::source::{Fetched, SourceErrorClass, VerifyMode};

use super::{
    Error, Repositories,
    act::FetchOutcome,
    attempts::{Attempt, fetch_backoff},
    decide::{Decision, Fetch, UnsupportedSource},
    remote::Failure,
};
use crate::{
    reconcile::Context,
    runtime::{Action, Api, Key, status::patch_if_changed},
};

/// Flux's condition for signatures; present only if they are required and known to be valid or invalid.
const SOURCE_VERIFIED: &str = "SourceVerified";

/// The jitter of intervals, so that a fleet does not fetch in step.
const SPREAD: f64 = 0.05;

/// Reports that a fetch of a new spec has begun. Returns the object with the new status.
pub(super) async fn announce(
    object: &GitRepository,
    decision: &Decision,
    context: &Context,
) -> Result<GitRepository, Error> {
    let Decision::Fetch(Fetch {
        spec_changed: true,
        want,
        ..
    }) = decision
    else {
        return Ok(object.clone());
    };
    let generation = object.metadata.generation.unwrap_or_default();
    let spoken_of = object.status.as_ref().is_some_and(|status| {
        muster_api::conditions::find(&status.conditions, muster_api::conditions::READY)
            .is_some_and(|ready| ready.observed_generation == Some(generation))
    });
    if spoken_of {
        return Ok(object.clone());
    }
    let conditions = Conditions::ready(Status::Unknown, "Progressing", "reconciliation in progress")
        .reconciling("Progressing", format!("fetching {want}"));
    let status = object.status.clone().unwrap_or_default();
    write(
        object,
        with(status, &conditions, generation, context.clock.now()),
        context,
    )
    .await
}

/// Writes the result and returns when to reconcile again.
pub(super) async fn conclude(
    object: &GitRepository,
    outcome: FetchOutcome,
    repositories: &Repositories,
) -> Result<Action, Error> {
    let context = &repositories.context;
    let key = Key::of(object);
    let now = context.clock.now();
    match outcome {
        FetchOutcome::Nothing => {
            repositories.attempts.remove(&key);
            Ok(Action::await_change())
        }
        FetchOutcome::Rest { until } => Ok(Action::requeue(
            Duration::try_from(until.duration_since(now)).unwrap_or_default(),
        )),
        FetchOutcome::Refused(refusal) => {
            write(object, refused(object, &refusal, now), context).await?;
            Ok(Action::await_change())
        }
        FetchOutcome::Fetched { fetch, fetched } => {
            let status = ready(object, &fetch, &fetched, now);
            write(object, status, context).await?;
            let wait = context.jitter.spread(fetch.interval, SPREAD);
            Ok(remember(object, fetch.requested, 0, wait, repositories))
        }
        FetchOutcome::Failed { fetch, failure } if failure.class == SourceErrorClass::Invalid => {
            let refusal = UnsupportedSource {
                reason: failure.reason,
                message: failure.message,
            };
            write(object, refused(object, &refusal, now), context).await?;
            Ok(remember(object, fetch.requested, 0, fetch.interval, repositories))
        }
        FetchOutcome::Failed { fetch, failure } => {
            write(object, failed(object, &failure, now), context).await?;
            let failures = fetch.failures.saturating_add(1);
            let wait = match failure.class {
                SourceErrorClass::Unavailable | SourceErrorClass::Missing => {
                    context.jitter.spread(fetch_backoff(failures), 0.2)
                }
                SourceErrorClass::Content | SourceErrorClass::Invalid => {
                    context.jitter.spread(fetch.interval, SPREAD)
                }
            };
            Ok(remember(object, fetch.requested, failures, wait, repositories))
        }
    }
}

fn remember(
    object: &GitRepository,
    requested: Option<String>,
    failures: u32,
    wait: Duration,
    repositories: &Repositories,
) -> Action {
    let attempt = Attempt {
        uid: object.uid().unwrap_or_default(),
        generation: object.metadata.generation.unwrap_or_default(),
        requested,
        failures,
        // Only a wait of thousands of years could exceed the range of timestamps.
        due: repositories
            .context
            .clock
            .now()
            .checked_add(wait)
            .unwrap_or(Timestamp::MAX),
    };
    repositories.attempts.put(Key::of(object), attempt);
    Action::requeue(wait)
}

fn ready(object: &GitRepository, fetch: &Fetch, fetched: &Fetched, now: Timestamp) -> GitRepositoryStatus {
    let revision = fetched.revision();
    let mut status = handled(object);
    let before = status.artifact.take();
    let same = before
        .filter(|before| before.revision == revision && before.digest.as_deref() == Some(&fetched.digest));
    status.artifact = Some(Artifact {
        last_update_time: same.map_or(Time(now), |before| before.last_update_time),
        revision: revision.clone(),
        digest: Some(fetched.digest.clone()),
        // A size above the range of the API field is left out.
        size: i64::try_from(fetched.size).ok(),
        path: path(object, &revision),
        url: String::new(),
    });
    status.observed_generation = object.metadata.generation;
    status.observed_ignore.clone_from(&object.spec.ignore);
    status.source_verification_mode = fetch.verify.as_ref().map(|verify| {
        let word = match verify.mode {
            VerifyMode::Commit => "HEAD",
            VerifyMode::Tag => "Tag",
            VerifyMode::TagAndCommit => "TagAndHEAD",
        };
        word.to_owned()
    });
    let mut conditions = Conditions::ready(
        Status::True,
        "Succeeded",
        format!("stored artifact for revision '{revision}'"),
    );
    if let Some(signer) = &fetched.verified {
        let message = format!("verified the signature of '{revision}', by {signer}");
        conditions = conditions.with(SOURCE_VERIFIED, Status::True, "Succeeded", message);
    }
    with(
        status,
        &conditions,
        object.metadata.generation.unwrap_or_default(),
        now,
    )
}

/// The path where Flux would store the artifact. Nothing is there: after a migration to Flux, its source-controller
/// detects by this that it must fetch. Before the check it cleans up the directory of that path, and with an empty path
/// that would be its working directory.
fn path(object: &GitRepository, revision: &str) -> String {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    format!("gitrepository/{namespace}/{name}/{}.git", commit_of(revision))
}

fn failed(object: &GitRepository, failure: &Failure, now: Timestamp) -> GitRepositoryStatus {
    let message = with_last_good(object, &failure.message);
    let mut conditions = Conditions::ready(Status::False, failure.reason, message.clone())
        .reconciling("ProgressingWithRetry", message);
    if failure.reason == Reason::VerificationFailed.as_str() {
        let message = failure.message.clone();
        conditions = conditions.with(SOURCE_VERIFIED, Status::False, failure.reason, message);
    }
    with(
        handled(object),
        &conditions,
        object.metadata.generation.unwrap_or_default(),
        now,
    )
}

fn refused(object: &GitRepository, refusal: &UnsupportedSource, now: Timestamp) -> GitRepositoryStatus {
    let message = with_last_good(object, &refusal.message);
    let conditions =
        Conditions::ready(Status::False, refusal.reason, message.clone()).stalled(refusal.reason, message);
    let mut status = handled(object);
    status.observed_generation = object.metadata.generation;
    with(
        status,
        &conditions,
        object.metadata.generation.unwrap_or_default(),
        now,
    )
}

/// The failure, and the artifact that is still valid. It has a time instead of an age: an age would change the status
/// with every reconcile.
fn with_last_good(object: &GitRepository, trouble: &str) -> String {
    match object.status.as_ref().and_then(|status| status.artifact.as_ref()) {
        None => trouble.to_owned(),
        Some(artifact) => {
            format!(
                "{trouble}; the last good revision is {} of {}",
                artifact.revision, artifact.last_update_time.0
            )
        }
    }
}

/// The status with the reconcile request handled.
fn handled(object: &GitRepository) -> GitRepositoryStatus {
    let mut status = object.status.clone().unwrap_or_default();
    if let Some(requested) = object.annotations().get(annotation::RECONCILE_REQUESTED_AT) {
        status.last_handled_reconcile_at = Some(requested.clone());
    }
    status
}

fn with(
    mut status: GitRepositoryStatus,
    conditions: &Conditions,
    generation: i64,
    now: Timestamp,
) -> GitRepositoryStatus {
    status.conditions = conditions.merge(&status.conditions, generation, now);
    status
}

async fn write(
    object: &GitRepository,
    status: GitRepositoryStatus,
    context: &Context,
) -> Result<GitRepository, Error> {
    let api = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    let written =
        patch_if_changed(&api, object, object.status.as_ref(), &status, manager::CONTROLLER).await?;
    Ok(written.unwrap_or_else(|| object.clone()))
}
