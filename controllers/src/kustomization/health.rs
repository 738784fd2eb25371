//! Health after applying: one check at a time; what is not healthy yet is checked again later.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::flux::Kustomization;
use muster_sync::{
    apply::{self, CallError, Cluster, Jobs, Plan},
    health::{self, evidence::Watch},
    inventory::{Inventory, ObjectId},
};

use super::{
    Kustomizations,
    outcome::{Applied, Awaited, Failure, ReconcileOutcome},
    settings::{self, Settings},
    work::Aim,
};
use crate::reconcile::Context;

/// The first wait between two checks.
const POLL_MIN: Duration = Duration::from_millis(250);

/// The longest wait between two checks; Flux's only one.
const POLL_MAX: Duration = Duration::from_secs(5);

/// A check that is due.
#[derive(Debug)]
pub(super) struct Check {
    pub aim: Aim,
    pub settings: Settings,
    pub since: Timestamp,
    pub watch: Watch,
    pub report: Applied,
    pub leaving: Option<Leaving>,
}

/// Pruned objects that are not gone yet.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The inventory of the revision: the objects that stay.
    pub wanted: Inventory,
    /// What is waited for, as text.
    pub awaited: String,
}

/// The wait until the next check: the longer it has taken already, the longer, so that a quick start is noticed
/// quickly.
fn poll(elapsed: Duration) -> Duration {
    (elapsed / 8).clamp(POLL_MIN, POLL_MAX)
}

/// The objects whose health is waited for: all applied ones except those that opted out, or those that the spec names;
/// each with the API version that it is read in.
pub(super) async fn targets(
    cluster: &Cluster,
    settings: &Settings,
    plan: &Plan,
    applied: &apply::Applied,
    object: &Kustomization,
) -> Result<Vec<(ObjectId, String)>, CallError> {
    if settings.wait {
        let own = own(object).filter(|_| settings.remote.is_none());
        let skipped = applied
            .outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == apply::ApplyOutcome::Skipped);
        // A Kustomization that waits for itself would never finish.
        let others: BTreeSet<&ObjectId> = skipped.map(|(id, _)| id).chain(&own).collect();
        let ours = plan.managed().filter(|(id, _)| !others.contains(id));
        return Ok(ours
            .map(|(id, version)| (id.clone(), version.to_owned()))
            .collect());
    }
    let mut targets = Vec::with_capacity(settings.health_checks.len());
    for reference in &settings.health_checks {
        let api_version = reference.api_version.as_deref().unwrap_or("v1");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let namespaced = cluster
            .kind(api_version, &reference.kind)
            .await?
            .is_none_or(|kind| kind.namespaced);
        let namespace = reference
            .namespace
            .clone()
            .or_else(|| object.namespace())
            .unwrap_or_default();
        let id = ObjectId {
            namespace: if namespaced { namespace } else { String::new() },
            name: reference.name.clone(),
            group: group.to_owned(),
            kind: reference.kind.clone(),
        };
        targets.push((id, version.to_owned()));
    }
    Ok(targets)
}

/// Runs one check.
pub(super) async fn check(
    cluster: &Cluster,
    mut check: Check,
    jobs: &Jobs,
    context: &Context,
) -> ReconcileOutcome {
    let now = context.clock.now();
    let settle = check.settings.settle;
    let result = tokio::time::timeout(
        check.settings.timeout,
        health::check::check(cluster, &mut check.watch, settle, jobs, now),
    )
    .await;
    // A check that exceeds the time for all checks is inconclusive.
    let result = result.unwrap_or(Err(CallError::Deadline(check.settings.timeout)));
    if result.is_err() {
        check.watch.missed();
    }
    check.since = check.watch.runs_since(check.since, now);
    check.report.progress = check.watch.progress();
    check.report.assumed = check.watch.assumed(settle);
    if let Some(assumed) = check
        .report
        .assumed
        .take_if(|_| !check.settings.assumes && check.watch.assumes())
    {
        let message = format!("health check failed: {assumed}; assume is Never");
        return check.failed(Failure::unhealthy(message));
    }
    match result {
        Ok(report) if report.is_healthy() => match &check.leaving {
            None => ReconcileOutcome::Succeeded {
                aim: check.aim,
                settings: check.settings,
                report: check.report,
            },
            Some(leaving) => {
                let awaited = Awaited::Termination(leaving.awaited.clone());
                check.not_yet(awaited, now)
            }
        },
        Ok(report) if report.is_terminal() => {
            let message = format!(
                "health check failed: failed early due to stalled resources: [{}]",
                report.summary()
            );
            check.failed(Failure::unhealthy(message))
        }
        Ok(report) => check.not_yet(Awaited::Health(report.summary()), now),
        Err(error) => check.not_yet(Awaited::Health(error.to_string()), now),
    }
}

/// Reads Jobs that may have finished and be gone by the next application. What cannot be reached now is read the next
/// time.
pub(super) async fn observe_jobs(object: &Kustomization, kustomizations: &Kustomizations) {
    let jobs = kustomizations.runs.jobs(object);
    if jobs.pace().is_none() {
        return;
    }
    let namespace = object.namespace().unwrap_or_default();
    let remote = settings::remote(&object.spec);
    let cluster = kustomizations.targets.cluster(&namespace, remote.as_ref());
    if let Ok(cluster) = cluster.await {
        health::check::observe_jobs(&cluster, &jobs).await;
    }
}

/// Nothing can be determined about the cluster now: `words` is the reason.
pub(super) fn unknown(
    mut check: Check,
    wanted: Option<Inventory>,
    words: String,
    context: &Context,
) -> ReconcileOutcome {
    check.watch.missed();
    check.leaving = wanted.map(|wanted| Leaving {
        wanted,
        awaited: words.clone(),
    });
    let awaited = if check.watch.targets.is_empty() {
        Awaited::Termination(words)
    } else {
        Awaited::Health(words)
    };
    check.not_yet(awaited, context.clock.now())
}

impl Check {
    fn not_yet(self, awaited: Awaited, now: Timestamp) -> ReconcileOutcome {
        let timeout = self.settings.timeout;
        // A negative span, as after a step of the clock, counts as zero.
        let elapsed = Duration::try_from(now.duration_since(self.since)).unwrap_or_default();
        if elapsed >= timeout {
            let after =
                muster_api::Duration::from_millis(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
            return self.failed(match awaited {
                Awaited::Health(summary) => Failure::unhealthy(format!(
                    "health check failed after {after}: timeout waiting for: [{summary}]"
                )),
                Awaited::Termination(awaited) => Failure::not_gone(format!(
                    "pruning is not done after {after}: {awaited}; see metadata.finalizers of the object for what blocks it"
                )),
            });
        }
        let settled = self.watch.until_settled(now, self.settings.settle);
        let after = settled.map_or_else(|| poll(elapsed), |settled| settled.min(poll(elapsed)));
        let Self {
            aim,
            since,
            watch,
            report,
            leaving,
            ..
        } = self;
        ReconcileOutcome::Checking {
            aim,
            since,
            watch,
            wanted: leaving.map(|leaving| leaving.wanted),
            timeout,
            after,
            awaited,
            report,
        }
    }

    pub(super) fn failed(self, failure: Failure) -> ReconcileOutcome {
        let failure = Failure {
            inventory: failure.inventory.or(self.report.inventory),
            ..failure
        };
        ReconcileOutcome::Failed {
            aim: self.aim,
            settings: self.settings,
            failure,
        }
    }
}

/// The id of a Kustomization itself.
fn own(object: &Kustomization) -> Option<ObjectId> {
    Some(ObjectId {
        namespace: object.namespace()?,
        name: object.name_any(),
        group: "kustomize.toolkit.fluxcd.io".to_owned(),
        kind: "Kustomization".to_owned(),
    })
}
