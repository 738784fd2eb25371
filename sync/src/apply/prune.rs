//! Removing what is no longer wanted: last stage first, by uid, and only what is the owner's.

use futures::{StreamExt, stream};
use serde_json::Value;

use super::{
    CONCURRENCY, CallError, Cluster, ObjectFailure, Owner,
    prepare::Wishes,
    stage::{self, Stage},
};
use crate::inventory::ObjectId;

/// What became of the objects that were to be pruned. Each is in exactly one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Seen gone: they leave the inventory.
    pub gone: Vec<ObjectId>,
    /// Left where they are, for good: not the owner's, or not to be pruned by their own wish. They leave the inventory too.
    pub released: Vec<ObjectId>,
    /// Deleted and not gone yet: they stay in the inventory.
    pub waiting: Vec<ObjectId>,
    /// Not tried, because objects of a later stage are not gone yet: they stay in the inventory.
    pub blocked: Vec<ObjectId>,
    /// Refused: they stay in the inventory.
    pub failures: Vec<ObjectFailure>,
}

enum Fate {
    Gone,
    Released,
    Waiting,
}

impl Pruned {
    /// Whether nothing is left to be done.
    pub fn is_complete(&self) -> bool {
        self.waiting.is_empty() && self.blocked.is_empty() && self.failures.is_empty()
    }

    /// The objects that leave the inventory.
    pub fn settled(&self) -> impl Iterator<Item = &ObjectId> {
        self.gone.iter().chain(&self.released)
    }
}

/// Deletes objects that were recorded for `owner`, each with the version that it was last applied by.
///
/// A stage is begun when the one after it is gone, so that nothing loses its namespace or its definition early.
pub async fn prune(cluster: &Cluster, owner: &Owner, objects: &[(ObjectId, String)]) -> Pruned {
    let mut pruned = Pruned::default();
    for stage in Stage::ALL.into_iter().rev() {
        let of_stage: Vec<&(ObjectId, String)> = objects
            .iter()
            .filter(|(id, _)| stage::of_id(id) == stage)
            .collect();
        if !pruned.is_complete() {
            pruned
                .blocked
                .extend(of_stage.into_iter().map(|(id, _)| id.clone()));
            continue;
        }
        // By index, for the compiler cannot tell that a closure over references is Send once it is part of a future.
        let tries = (0..of_stage.len()).map(|index| {
            let (id, version) = of_stage[index];
            prune_one(cluster, owner, id, version)
        });
        let fates: Vec<_> = stream::iter(tries).buffered(CONCURRENCY).collect().await;
        for ((id, _), fate) in of_stage.into_iter().zip(fates) {
            match fate {
                Ok(Fate::Gone) => pruned.gone.push(id.clone()),
                Ok(Fate::Released) => pruned.released.push(id.clone()),
                Ok(Fate::Waiting) => pruned.waiting.push(id.clone()),
                Err(error) => pruned
                    .failures
                    .push(ObjectFailure::call(id.clone(), "delete", &error)),
            }
        }
    }
    pruned
}

async fn prune_one(
    cluster: &Cluster,
    owner: &Owner,
    id: &ObjectId,
    version: &str,
) -> Result<Fate, CallError> {
    let Some(kind) = cluster.kind_in_any_version(id, version).await? else {
        // The kind went, and its objects with it.
        return Ok(Fate::Gone);
    };
    let Some(live) = cluster.get(&kind, id).await? else {
        // It may have been recorded for another name, before such names were refused; the labels say so then.
        return match id.misread_for() {
            Some(other) => Box::pin(prune_one(cluster, owner, &other, version)).await,
            None => Ok(Fate::Gone),
        };
    };
    if !owner.owns(&live) || Wishes::of(&live).keep {
        return Ok(Fate::Released);
    }
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Ok(Fate::Waiting);
    }
    let uid = live
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match cluster.delete(&kind, id, uid).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() => return Ok(Fate::Gone),
        // Another object of that name is there by now. The next round looks whose it is.
        Err(CallError::Refused(status)) if status.code == 409 => return Ok(Fate::Waiting),
        Err(error) => return Err(error),
    }
    Ok(match cluster.get(&kind, id).await? {
        None => Fate::Gone,
        Some(_) => Fate::Waiting,
    })
}
