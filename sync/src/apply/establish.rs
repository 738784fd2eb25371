//! Waits for CustomResourceDefinitions: custom resources are applied once their kinds are served.

use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use tokio::time::sleep;

use super::{
    CONCURRENCY, CallError, Cluster, ObjectFailure, Prepared,
    prepare::{defined_kinds, is_definition},
};
use crate::health::{self, Health, State};

/// How often a definition that is not established yet is polled.
const POLL: Duration = Duration::from_millis(200);

/// Waits until every definition among the objects is established and its kinds are served; returns those that are not
/// before the deadline.
pub(super) async fn await_definitions(
    cluster: &Cluster,
    objects: &[Prepared],
    timeout: Duration,
) -> Vec<ObjectFailure> {
    let definitions: Vec<&Prepared> = objects
        .iter()
        .filter(|object| is_definition(&object.id) && !object.wishes.ignore)
        .collect();
    // By index: the compiler cannot prove that a closure over references is Send once it is part of a future.
    let waits = (0..definitions.len()).map(|index| await_definition(cluster, definitions[index], timeout));
    let waits: Vec<_> = stream::iter(waits).buffered(CONCURRENCY).collect().await;
    waits.into_iter().filter_map(Result::err).collect()
}

async fn await_definition(
    cluster: &Cluster,
    object: &Prepared,
    timeout: Duration,
) -> Result<(), ObjectFailure> {
    let id = &object.id;
    let late = || ObjectFailure::not_established(id.clone(), &format!("not within {} s", timeout.as_secs()));
    tokio::time::timeout(timeout, established(cluster, object))
        .await
        .map_err(|_elapsed| late())??;
    // The kinds are served now; discovery follows a moment later.
    for (api_version, kind, _) in defined_kinds(&object.body) {
        tokio::time::timeout(timeout, served(cluster, object, &api_version, &kind))
            .await
            .map_err(|_elapsed| ObjectFailure::not_served(id.clone(), &api_version, &kind))??;
    }
    Ok(())
}

async fn established(cluster: &Cluster, object: &Prepared) -> Result<(), ObjectFailure> {
    let id = &object.id;
    let api_version = object.api_version();
    let kind = cluster
        .kind(&api_version, &id.kind)
        .await
        .map_err(|error| failed(object, &error))?
        .ok_or_else(|| ObjectFailure::unknown_kind(id.clone(), &api_version))?;
    loop {
        let live = cluster
            .get(&kind, id)
            .await
            .map_err(|error| failed(object, &error))?;
        // The status rule for definitions does not depend on time.
        let health = live.map_or_else(Health::not_found, |live| {
            health::health_of(&live, Timestamp::UNIX_EPOCH)
        });
        if health.is_current() {
            return Ok(());
        }
        if health.terminal || health.state == State::NotFound {
            return Err(ObjectFailure::not_established(id.clone(), &health.message));
        }
        sleep(POLL).await;
    }
}

async fn served(
    cluster: &Cluster,
    object: &Prepared,
    api_version: &str,
    kind: &str,
) -> Result<(), ObjectFailure> {
    while cluster
        .kind(api_version, kind)
        .await
        .map_err(|error| failed(object, &error))?
        .is_none()
    {
        sleep(POLL).await;
    }
    Ok(())
}

fn failed(object: &Prepared, error: &CallError) -> ObjectFailure {
    ObjectFailure::call(object.id.clone(), "reading it", error)
}
