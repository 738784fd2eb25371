//! Carrying out a plan: ledger first, then stage by stage, eight objects at a time.

use std::{error::Error, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::sleep;

use super::{
    ApplyError, CONCURRENCY, CallError, Cluster, ObjectFailure, Plan, Prepared,
    one::apply_one,
    prepare::is_definition,
    stage::{self, Stage},
};
use crate::{
    health::{self, Health, State},
    inventory::{Inventory, ObjectId},
};

/// How often a definition that is not established yet is looked at.
const ESTABLISH_POLL: Duration = Duration::from_millis(200);

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It was not there.
    Created,
    /// It was different.
    Configured,
    /// It was deleted and created again, for a field that cannot be changed.
    Recreated,
    /// It was as it should be; nothing was written.
    Unchanged,
    /// Its annotations asked for it to be left alone.
    Skipped,
}

/// What became of a plan: every object with its outcome, in the order of applying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Outcomes by object.
    pub outcomes: Vec<(ObjectId, Outcome)>,
}

/// Where the ids of objects are written before they are created.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Records that the objects of `planned` may exist from now on, beside those that were recorded before.
    /// Costs no write when they are recorded already.
    async fn record(&self, planned: &Inventory) -> Result<(), LedgerError>;
}

/// Why the ledger could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LedgerError(#[source] pub Box<dyn Error + Send + Sync>);

impl Applied {
    /// Whether anything was written.
    pub fn changed(&self) -> bool {
        self.outcomes
            .iter()
            .any(|(_, outcome)| !matches!(outcome, Outcome::Unchanged | Outcome::Skipped))
    }

    /// How many objects came out like that.
    pub fn count(&self, wanted: Outcome) -> usize {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == wanted)
            .count()
    }
}

/// Carries out a plan. All objects of a stage are tried; a stage with a failure is the last one.
pub async fn run(cluster: &Cluster, plan: &Plan, ledger: &dyn Ledger) -> Result<Applied, ApplyError> {
    ledger
        .record(&plan.inventory())
        .await
        .map_err(ApplyError::Ledger)?;
    let mut applied = Applied::default();
    for stage in Stage::ALL {
        let objects: Vec<&Prepared> = plan
            .objects
            .iter()
            .filter(|object| stage_of(&object.id) == stage)
            .collect();
        let mut failures: Vec<ObjectFailure> = plan
            .failures
            .iter()
            .filter(|failure| stage_of(&failure.id) == stage)
            .cloned()
            .collect();
        let outcomes = apply_stage(cluster, &objects, plan).await;
        for (object, outcome) in objects.iter().zip(outcomes) {
            match outcome {
                Ok(outcome) => applied.outcomes.push((object.id.clone(), outcome)),
                Err(failure) => failures.push(failure),
            }
        }
        if failures.is_empty() && stage == Stage::Definitions {
            failures = await_definitions(cluster, &objects, plan.options.timeout).await;
        }
        if !failures.is_empty() {
            let not_tried = plan
                .objects
                .iter()
                .filter(|object| stage_of(&object.id) > stage)
                .count();
            return Err(ApplyError::Objects { failures, not_tried });
        }
    }
    Ok(applied)
}

/// Tries every object of a stage; the results are in the order of the objects.
async fn apply_stage(
    cluster: &Cluster,
    objects: &[&Prepared],
    plan: &Plan,
) -> Vec<Result<Outcome, ObjectFailure>> {
    let tries: Vec<_> = objects
        .iter()
        .map(|object| apply_one(cluster, object, &plan.options))
        .collect();
    stream::iter(tries).buffered(CONCURRENCY).collect().await
}

/// Waits until every definition of the stage is established; returns those that are not in time.
async fn await_definitions(
    cluster: &Cluster,
    objects: &[&Prepared],
    timeout: Duration,
) -> Vec<ObjectFailure> {
    let definitions: Vec<_> = objects
        .iter()
        .filter(|object| is_definition(&object.id) && !object.wishes.ignore)
        .map(|object| await_definition(cluster, object, timeout))
        .collect();
    let waits = stream::iter(definitions).buffered(CONCURRENCY);
    let failures = waits
        .filter_map(|wait| std::future::ready(wait.err()))
        .collect()
        .await;
    // Their kinds are served from now on, perhaps in another scope than before.
    for object in objects.iter().filter(|object| is_definition(&object.id)) {
        let group = object.body.pointer("/spec/group").and_then(Value::as_str);
        cluster.forget_group(group.unwrap_or_default());
    }
    failures
}

async fn await_definition(
    cluster: &Cluster,
    object: &Prepared,
    timeout: Duration,
) -> Result<(), ObjectFailure> {
    let api_version = object.api_version();
    let failed = |error: &CallError| ObjectFailure::call(object.id.clone(), "reading it", error);
    let served = cluster
        .kind(&api_version, &object.id.kind)
        .await
        .map_err(|error| failed(&error))?;
    let kind = served.ok_or_else(|| ObjectFailure::unknown_kind(object.id.clone(), &api_version))?;
    let established = async {
        loop {
            let live = cluster
                .get(&kind, &object.id)
                .await
                .map_err(|error| failed(&error))?;
            // The rule of definitions knows no time.
            let health = live.map_or_else(Health::not_found, |live| health::of(&live, Timestamp::UNIX_EPOCH));
            if health.is_current() {
                return Ok(());
            }
            if health.terminal || health.state == State::NotFound {
                return Err(ObjectFailure::not_established(object.id.clone(), &health.message));
            }
            sleep(ESTABLISH_POLL).await;
        }
    };
    match tokio::time::timeout(timeout, established).await {
        Ok(established) => established,
        Err(_elapsed) => {
            let why = format!("not within {} s", timeout.as_secs());
            Err(ObjectFailure::not_established(object.id.clone(), &why))
        }
    }
}

fn stage_of(id: &ObjectId) -> Stage {
    stage::of(&id.group, &id.kind)
}
