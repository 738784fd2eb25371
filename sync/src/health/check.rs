//! Reading the health of live objects, and the cause of the first one that is not well.

use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    Health, State,
    fields::{list, text},
    of, pods,
    report::{Report, Unhealthy},
};
use crate::{
    apply::{CONCURRENCY, CallError, Cluster},
    inventory::ObjectId,
};

/// How many pods of a workload are asked for the cause: the newest one with a cause is enough, but a server lists by name.
/// Five hundred pods of 20 KiB are 10 MiB, within the limit of an answer.
const PODS: u32 = 500;

/// Reads the objects, each with the version it is served in, and reports the first that is not well with its cause.
///
/// An object that the server refuses to show counts as in progress, with the server's reason. An error is returned only
/// where the cluster itself is the trouble.
pub async fn check(
    cluster: &Cluster,
    targets: &[(ObjectId, String)],
    now: Timestamp,
) -> Result<Report, CallError> {
    let reads: Vec<_> = targets
        .iter()
        .map(|(id, version)| look(cluster, id, version, now))
        .collect();
    let looks: Vec<Result<(Health, Option<Value>), CallError>> =
        stream::iter(reads).buffered(CONCURRENCY).collect().await;
    let mut unhealthy = Vec::new();
    for ((id, _), look) in targets.iter().zip(looks) {
        let (health, live) = look?;
        if !health.is_current() {
            unhealthy.push((
                Unhealthy {
                    id: id.clone(),
                    health,
                    cause: None,
                },
                live,
            ));
        }
    }
    // What has failed for good is the news; what is merely not done yet may be waiting for it.
    unhealthy.sort_by_key(|(unhealthy, _)| !unhealthy.health.terminal);
    if let Some((first, live)) = unhealthy.first_mut() {
        first.cause = match live {
            Some(live) => cause(cluster, live).await?,
            None => None,
        };
    }
    Ok(Report {
        unhealthy: unhealthy.into_iter().map(|(unhealthy, _)| unhealthy).collect(),
    })
}

async fn look(
    cluster: &Cluster,
    id: &ObjectId,
    version: &str,
    now: Timestamp,
) -> Result<(Health, Option<Value>), CallError> {
    let live = match cluster.kind(&id.api_version(version), &id.kind).await {
        Ok(Some(kind)) => cluster.get(&kind, id).await,
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    match live {
        Ok(Some(live)) => Ok((of(&live, now), Some(live))),
        Ok(None) => Ok((Health::not_found(), None)),
        Err(error) if error.is_of_cluster() => Err(error),
        Err(error) => Ok((
            Health::in_progress(error.reason().to_owned(), error.to_string()),
            None,
        )),
    }
}

/// Why a workload is not ready, in the words of its pods. Not being allowed to list them is no error, only less to tell.
async fn cause(cluster: &Cluster, workload: &Value) -> Result<Option<String>, CallError> {
    if text(workload, "/kind") == Some("Pod") {
        return Ok(pods::cause(workload));
    }
    let (Some(namespace), Some(selector)) = (text(workload, "/metadata/namespace"), selector(workload))
    else {
        return Ok(None);
    };
    let mut pods = match cluster.pods(namespace, &selector, PODS).await {
        Ok(pods) => pods,
        Err(error) if error.is_of_cluster() => return Err(error),
        Err(_) => return Ok(None),
    };
    pods.retain(|pod| text(pod, "/metadata/deletionTimestamp").is_none());
    // The newest first: after an update the old pods still run, and it is the new ones that are waited for.
    pods.sort_by(|a, b| {
        let order = |pod: &Value| {
            (
                text(pod, "/metadata/creationTimestamp").map(str::to_owned),
                text(pod, "/metadata/name").map(str::to_owned),
            )
        };
        order(b).cmp(&order(a))
    });
    Ok(pods.iter().find_map(|pod| {
        let cause = pods::cause(pod)?;
        Some(format!(
            "pod {}: {cause}",
            text(pod, "/metadata/name").unwrap_or_default()
        ))
    }))
}

/// The label selector of a workload as text, if it has one that a list can take.
fn selector(workload: &Value) -> Option<String> {
    let labels = workload
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let mut terms: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    for expression in list(workload, "/spec/selector/matchExpressions") {
        let key = text(expression, "/key")?;
        let values: Vec<&str> = list(expression, "/values").filter_map(Value::as_str).collect();
        terms.push(match text(expression, "/operator")? {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!terms.is_empty()).then(|| terms.join(","))
}

impl Unhealthy {
    /// Whether the object is gone or going: then applying again is what helps.
    pub fn is_missing(&self) -> bool {
        matches!(self.health.state, State::NotFound)
    }
}
