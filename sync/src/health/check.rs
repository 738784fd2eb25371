//! Reads the health of live objects, and the cause for the first unhealthy one.

use std::{pin::pin, time::Duration};

use futures::{
    StreamExt,
    future::{Either, select},
    stream,
};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    Health, State,
    evidence::{NO_EVIDENCE, Target, Watch},
    expressions,
    fields::{list, selector, string_at},
    health_of,
    judged::Judged,
    pods,
    report::{Report, Unhealthy},
    zones,
};
use crate::{
    cluster::{CONCURRENCY, CallError, Cluster, FIELD_MANAGER},
    inventory::ObjectId,
    jobs::{Jobs, PACE_MIN},
};

/// How many pods of a workload are searched for the cause. The newest pod with a cause is enough, but the server lists
/// by name.
const PODS: usize = 500;

/// Reads the objects to wait for, each in its served version; once all are healthy, reads all of them again to confirm.
/// Reports the unhealthy ones, the first with its cause.
///
/// A Job that completed and was deleted for it is as healthy as one that still exists. An object that the server
/// refuses to show counts as in progress, with the server's reason. An error is returned only if the cluster itself is
/// the cause.
pub async fn check(
    cluster: &Cluster,
    watch: &mut Watch,
    settle: Duration,
    jobs: &Jobs,
    now: Timestamp,
) -> Result<Report, CallError> {
    let due = watch.due();
    let mut unhealthy = read_all(cluster, watch, &due, settle, jobs, now).await?;
    if unhealthy.is_empty() && due.len() < watch.targets.len() {
        let all: Vec<usize> = (0..watch.targets.len()).collect();
        unhealthy = read_all(cluster, watch, &all, settle, jobs, now).await?;
    }
    // Permanent failures are reported first; objects in progress may be waiting for them. Objects that only lack
    // evidence come last.
    unhealthy.sort_by_key(|(unhealthy, _)| {
        let health = &unhealthy.health;
        (!health.terminal, health.reason == NO_EVIDENCE)
    });
    if let Some((first, live)) = unhealthy.first_mut() {
        first.cause = match live {
            Some(live) if first.health.reason != NO_EVIDENCE => cause(cluster, live).await?,
            Some(_) | None => None,
        };
    }
    Ok(Report {
        unhealthy: unhealthy.into_iter().map(|(unhealthy, _)| unhealthy).collect(),
    })
}

/// Reads the targets with these indices; returns the unhealthy ones.
async fn read_all(
    cluster: &Cluster,
    watch: &mut Watch,
    indices: &[usize],
    settle: Duration,
    jobs: &Jobs,
    now: Timestamp,
) -> Result<Vec<(Unhealthy, Option<Value>)>, CallError> {
    let reads: Vec<_> = indices
        .iter()
        .map(|index| &watch.targets[*index])
        .map(|target| read_target(cluster, target, jobs, now))
        .collect();
    let results: Vec<Result<(Judged, Option<Value>), CallError>> =
        stream::iter(reads).buffered(CONCURRENCY).collect().await;
    let mut unhealthy = Vec::new();
    for (index, result) in indices.iter().zip(results) {
        let (judged, live) = result?;
        let target = &mut watch.targets[*index];
        target.answered = judged.answered;
        target.zone = judged.zone;
        let health = target.found(live.as_ref(), judged.health, now, settle);
        if !target.is_well() {
            let id = target.id.clone();
            let cause = None;
            unhealthy.push((Unhealthy { id, health, cause }, live));
        }
    }
    Ok(unhealthy)
}

async fn read_target(
    cluster: &Cluster,
    target: &Target,
    jobs: &Jobs,
    now: Timestamp,
) -> Result<(Judged, Option<Value>), CallError> {
    let id = &target.id;
    let live = read(cluster, id, &target.version).await;
    if let Ok(live) = &live {
        jobs.observed(id, live.as_ref());
    }
    match live {
        Ok(live) if jobs.has_completed(id) && live.as_ref().is_none_or(is_being_deleted) => {
            Ok((Health::current("Job Completed, and was deleted").into(), live))
        }
        Ok(Some(live)) => {
            if let Some(expressions) = &target.expressions {
                let judged =
                    expressions::judge_by_expressions(&live, expressions, target.needs_answer()).await;
                return Ok((judged, Some(live)));
            }
            let judged = match zones::group(&live) {
                Some(group) => zones::judge_zones(cluster, &live, group).await?,
                None => since_our_write(health_of(&live, now), &live).into(),
            };
            Ok((judged, Some(live)))
        }
        Ok(None) => Ok((Health::not_found().into(), None)),
        Err(error) if error.is_of_cluster() => Err(error),
        Err(error) => Ok((
            Health::in_progress(error.reason().to_owned(), error.to_string()).into(),
            None,
        )),
    }
}

async fn read(cluster: &Cluster, id: &ObjectId, version: &str) -> Result<Option<Value>, CallError> {
    match cluster.kind(&id.api_version(version), &id.kind).await? {
        Some(kind) => cluster.get(&kind, id).await,
        None => Ok(None),
    }
}

fn is_being_deleted(live: &Value) -> bool {
    live.pointer("/metadata/deletionTimestamp").is_some()
}

/// Reads the running Jobs that are deleted after they finish. Jobs that cannot be read now are read the next time.
pub async fn observe_jobs(cluster: &Cluster, jobs: &Jobs) {
    for (id, version) in jobs.running() {
        if let Ok(live) = read(cluster, &id, &version).await {
            jobs.observed(&id, live.as_ref());
        }
    }
}

/// Runs `work`, which applies, while polling Jobs that run already: one may be gone before the rest is applied.
pub async fn while_observing<T>(cluster: &Cluster, jobs: &Jobs, work: impl Future<Output = T>) -> T {
    if !jobs.are_planned() {
        return work.await;
    }
    let observing = async {
        loop {
            tokio::time::sleep(jobs.pace().unwrap_or(PACE_MIN)).await;
            observe_jobs(cluster, jobs).await;
        }
    };
    match select(pin!(work), pin!(observing)).await {
        Either::Left((done, _)) | Either::Right((done, _)) => done,
    }
}

/// A Deployment that exceeded its progress deadline reports so until its next progress, even after it got another
/// template: if it returns to an old ReplicaSet, nothing is created that would clear the condition, and the generation
/// is observed before any pod has changed. A condition from before our last write is about the previous state and is
/// ignored. kstatus cannot detect this, as it does not know about our write.
fn since_our_write(health: Health, live: &Value) -> Health {
    if health.reason == GAVE_UP
        && gave_up(live).is_some_and(|reported_at| written(live).is_some_and(|at| reported_at <= at))
    {
        return Health::in_progress(
            GAVE_UP,
            "its controller gave up before the last change, and has made no progress since",
        );
    }
    health
}

/// The reason that kstatus and the deployment controller use.
const GAVE_UP: &str = "ProgressDeadlineExceeded";

/// When the deployment controller reported it.
fn gave_up(live: &Value) -> Option<Timestamp> {
    let condition = list(live, "/status/conditions").find(|condition| condition["reason"] == GAVE_UP)?;
    time(condition, "/lastUpdateTime")
}

/// When we last changed the object, by the server's timestamp.
fn written(live: &Value) -> Option<Timestamp> {
    let ours = |entry: &&Value| {
        entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply" && entry["subresource"].is_null()
    };
    time(list(live, "/metadata/managedFields").find(ours)?, "/time")
}

/// An unparsable time is unknown.
fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    string_at(object, pointer)?.parse().ok()
}

/// Why a workload is not ready, from its pods. If listing them is forbidden, the cause is just missing.
async fn cause(cluster: &Cluster, workload: &Value) -> Result<Option<String>, CallError> {
    if string_at(workload, "/kind") == Some("Pod") {
        return Ok(pods::cause(workload));
    }
    let (Some(namespace), Some(selector)) = (string_at(workload, "/metadata/namespace"), selector(workload))
    else {
        return Ok(None);
    };
    let mut pods = match cluster.pods(namespace, &selector, PODS).await {
        Ok(pods) => pods,
        Err(error) if error.is_of_cluster() => return Err(error),
        Err(_) => return Ok(None),
    };
    pods.retain(|pod| string_at(pod, "/metadata/deletionTimestamp").is_none());
    // The newest first: after an update the old pods still run, but the new ones decide.
    pods.sort_by(|a, b| {
        let order = |pod: &Value| {
            (
                string_at(pod, "/metadata/creationTimestamp").map(str::to_owned),
                string_at(pod, "/metadata/name").map(str::to_owned),
            )
        };
        order(b).cmp(&order(a))
    });
    Ok(pods.iter().find_map(|pod| {
        let cause = pods::cause(pod)?;
        Some(format!(
            "pod {}: {cause}",
            string_at(pod, "/metadata/name").unwrap_or_default()
        ))
    }))
}

impl Unhealthy {
    /// Whether the object is gone or terminating: then applying again helps.
    pub fn is_missing(&self) -> bool {
        matches!(self.health.state, State::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(reported_at: &str, written: Option<&str>, terminal: bool) {
        let ours = written.map(|time| json!({"manager": FIELD_MANAGER, "operation": "Apply", "time": time}));
        let live = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "generation": 3, "managedFields": [
                {"manager": "kubectl", "operation": "Update", "time": "2026-01-01T09:00:00Z"}, ours,
            ]},
            "spec": {"replicas": 1, "progressDeadlineSeconds": 30},
            "status": {"observedGeneration": 3, "conditions": [
                {"type": "Progressing", "status": "False", "reason": GAVE_UP, "lastUpdateTime": reported_at},
            ]},
        });
        let health = since_our_write(health_of(&live, Timestamp::UNIX_EPOCH), &live);
        assert_eq!(health.terminal, terminal, "{reported_at} {written:?}: {health:?}");
    }

    #[test]
    fn what_a_deployment_said_before_our_write_condemns_nothing() {
        check("2026-01-01T08:00:00Z", Some("2026-01-01T08:00:00Z"), false);
        check("2026-01-01T07:59:00Z", Some("2026-01-01T08:00:00Z"), false);
        check("2026-01-01T08:00:01Z", Some("2026-01-01T08:00:00Z"), true);
        check("2026-01-01T08:00:01Z", None, true);
        check("yesterday", Some("2026-01-01T08:00:00Z"), true);
    }
}
