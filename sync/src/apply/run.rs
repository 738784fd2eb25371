//! Applies a plan: inventory first, then stage by stage, eight objects at a time.

use async_trait::async_trait;
use futures::{StreamExt, stream};

use super::{
    Applied, ApplyError, CONCURRENCY, Cluster, Declarers, LedgerError, ObjectFailure, Plan, Prepared,
    establish::await_definitions,
    one::{Done, apply_one},
    prepare::{is_definition, text_at},
    stage::{self, Stage},
};
use crate::{
    health::evidence::{Change, may_need_evidence},
    inventory::Inventory,
};

/// Where the ids of objects are recorded before the objects are created.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Records that the objects of `planned` may exist, in addition to those recorded before. Costs no write if they
    /// are recorded already.
    async fn record(&self, planned: &Inventory) -> Result<(), LedgerError>;
}

/// Applies a plan. All objects of a stage are tried; a stage with a failure is the last one. An object that another
/// Kustomization of `declarers` holds and declares differently is a failure, but does not stop later stages, because
/// the object exists.
pub async fn run(
    cluster: &Cluster,
    plan: &Plan,
    ledger: &dyn Ledger,
    declarers: &dyn Declarers,
) -> Result<Applied, ApplyError> {
    ledger
        .record(&plan.inventory())
        .await
        .map_err(ApplyError::Ledger)?;
    let mut applied = Applied::default();
    let mut shared = Vec::new();
    for stage in Stage::ALL {
        let objects = plan.of_stage(stage);
        let mut failures: Vec<ObjectFailure> = plan
            .failures
            .iter()
            .filter(|failure| stage::of_id(&failure.id) == stage)
            .cloned()
            .collect();
        // Futures are created one at a time: thousands at once would need much memory. By index: the compiler cannot
        // prove that a closure over references is Send once it is part of a future.
        let tries = (0..objects.len()).map(|index| apply_one(cluster, &objects[index], plan, declarers));
        let outcomes: Vec<_> = stream::iter(tries).buffered(CONCURRENCY).collect().await;
        for (object, outcome) in objects.iter().zip(outcomes) {
            match outcome {
                Ok(Done { outcome, change }) => {
                    if outcome.is_change() {
                        forget_kinds_of(object, cluster);
                    }
                    applied.outcomes.push((object.id.clone(), outcome));
                    if change != Change::Nothing && may_need_evidence(&object.id) {
                        applied.changes.insert(object.id.clone(), change);
                    }
                }
                Err(failure) if failure.is_shared() => shared.push(failure),
                Err(failure) => failures.push(failure),
            }
        }
        if failures.is_empty() {
            failures = await_definitions(cluster, objects, plan.options.timeout).await;
        }
        if !failures.is_empty() {
            let not_tried = plan
                .objects
                .iter()
                .filter(|object| stage::of_id(&object.id) > stage)
                .count();
            failures.extend(shared);
            return Err(ApplyError::Objects { failures, not_tried });
        }
    }
    if !shared.is_empty() {
        return Err(ApplyError::Objects {
            failures: shared,
            not_tried: 0,
        });
    }
    Ok(applied)
}

/// After a definition was written: the scope of its kinds may have changed.
fn forget_kinds_of(object: &Prepared, cluster: &Cluster) {
    if is_definition(&object.id) {
        cluster.drop_cached_group(text_at(&object.body, "/spec/group"));
    }
}
