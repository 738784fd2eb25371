//! Prunes objects: last stage first, by uid, and only those that belong to the owner.

use futures::{StreamExt, stream};

use super::{
    CONCURRENCY, CallError, Cluster, DELETE_TRIES, Declarers, ObjectFailure, Owner,
    prepare::ObjectPolicy,
    shared::release,
    stage::{self, Stage},
};
use crate::inventory::ObjectId;

/// The result of pruning. Each object is in exactly one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Gone: they leave the inventory.
    pub gone: Vec<ObjectId>,
    /// Kept in the cluster: not owned, annotated not to be pruned, or handed over to another owner. They leave the
    /// inventory too.
    pub released: Vec<ObjectId>,
    /// The Kustomizations that objects were handed over to, each once.
    pub heirs: Vec<Owner>,
    /// Deleted but not gone yet: they stay in the inventory.
    pub waiting: Vec<ObjectId>,
    /// Not tried, because objects of a later stage are not gone yet: they stay in the inventory.
    pub blocked: Vec<ObjectId>,
    /// Could not be deleted: they stay in the inventory.
    pub failures: Vec<ObjectFailure>,
}

enum Fate {
    Gone,
    Released,
    HandedOver(Owner),
    Waiting,
}

impl Pruned {
    /// Whether pruning is complete.
    pub fn is_complete(&self) -> bool {
        self.waiting.is_empty() && self.blocked.is_empty() && self.failures.is_empty()
    }

    /// The objects that leave the inventory.
    pub fn settled(&self) -> impl Iterator<Item = &ObjectId> {
        self.gone.iter().chain(&self.released)
    }
}

/// Deletes objects that were recorded for `owner`, each given with the API version that it was last applied with.
///
/// A stage starts when the one after it is gone, so that no object loses its namespace or its definition early. An
/// object that another Kustomization of `declarers` declares is handed over to it.
pub async fn prune(
    cluster: &Cluster,
    owner: &Owner,
    objects: &[(ObjectId, String)],
    declarers: &dyn Declarers,
) -> Pruned {
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
        // By index: the compiler cannot prove that a closure over references is Send once it is part of a future.
        let tries = (0..of_stage.len()).map(|index| {
            let (id, version) = of_stage[index];
            prune_one(cluster, owner, id, version, declarers)
        });
        let fates: Vec<_> = stream::iter(tries).buffered(CONCURRENCY).collect().await;
        for ((id, _), fate) in of_stage.into_iter().zip(fates) {
            match fate {
                Ok(Fate::Gone) => pruned.gone.push(id.clone()),
                Ok(Fate::Released) => pruned.released.push(id.clone()),
                Ok(Fate::HandedOver(heir)) => {
                    pruned.released.push(id.clone());
                    if !pruned.heirs.contains(&heir) {
                        pruned.heirs.push(heir);
                    }
                }
                Ok(Fate::Waiting) => pruned.waiting.push(id.clone()),
                Err(failure) => pruned.failures.push(failure),
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
    declarers: &dyn Declarers,
) -> Result<Fate, ObjectFailure> {
    let failed = |error: CallError| ObjectFailure::call(id.clone(), "delete", &error);
    let unknown = |why: String| ObjectFailure::unknown_declarers(id.clone(), "was not deleted", &why);
    let kind = cluster.kind_in_any_version(id, version).await.map_err(failed)?;
    let Some(kind) = kind else {
        // The kind is no longer served, so its objects are gone.
        return Ok(Fate::Gone);
    };
    for _ in 0..DELETE_TRIES {
        let Some(live) = cluster.get(&kind, id).await.map_err(failed)? else {
            // It may have been recorded for an object of another name, before such names were refused; the labels show
            // that.
            return match id.misread_for() {
                Some(other) => Box::pin(prune_one(cluster, owner, &other, version, declarers)).await,
                None => Ok(Fate::Gone),
            };
        };
        if !owner.owns(&live) || ObjectPolicy::of(&live).keep {
            return Ok(Fate::Released);
        }
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(Fate::Waiting);
        }
        // The labels may be those of a Kustomization of the same name in another cluster.
        if declarers.holder(id, &live).await.map_err(unknown)?.is_some() {
            return Ok(Fate::Released);
        }
        if let Some(heir) = declarers.heir(id).await.map_err(unknown)? {
            if release(cluster, &kind, id, &live, &heir).await.map_err(failed)? {
                return Ok(Fate::HandedOver(heir.owner));
            }
            continue;
        }
        match cluster.delete(&kind, id, &live).await {
            Ok(()) => {
                let left = cluster.get(&kind, id).await.map_err(failed)?;
                return Ok(left.map_or(Fate::Gone, |_| Fate::Waiting));
            }
            Err(error) if error.is_not_found() => return Ok(Fate::Gone),
            // The object has changed or was replaced: read again who owns it.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(failed(error)),
        }
    }
    // The next run tries it again.
    Ok(Fate::Waiting)
}
