//! Deletes objects that are no longer declared.

use muster_sync::{
    apply::{self, Cluster, Owner, Pruned, error::summary},
    inventory::{Inventory, ObjectId},
};

use super::{
    Kustomizations, confirm,
    declarers::Others,
    outcome::{Failure, Trouble},
    settings::Settings,
    status::Writer,
};

/// What pruning needs in addition to the objects.
pub(super) struct Pruning<'a> {
    pub cluster: &'a Cluster,
    pub owner: &'a Owner,
    pub others: &'a Others<'a>,
    pub kustomizations: &'a Kustomizations,
}

impl Pruning<'_> {
    /// Deletes objects that are no longer declared. Returns the remaining inventory, and what happened to the objects
    /// that left it.
    pub(super) async fn prune(
        &self,
        writer: &Writer,
        settings: &Settings,
        (before, wanted): (&Inventory, &Inventory),
    ) -> Result<(Inventory, Pruned), Trouble> {
        let unwanted = before.pruned_by(wanted);
        let inventory = before.clone().merged(wanted);
        if settings.prune && !unwanted.is_empty() {
            return self.delete(writer, settings, unwanted, inventory).await;
        }
        // As in Flux, an object with pruning disabled is orphaned.
        let pruned = Pruned {
            released: unwanted.into_iter().map(|(id, _)| id).collect(),
            ..Pruned::default()
        };
        self.settle(writer, inventory, pruned)
    }

    /// Deletes objects of the inventory, and removes from it those that are gone.
    pub(super) async fn delete(
        &self,
        writer: &Writer,
        settings: &Settings,
        unwanted: Vec<(ObjectId, String)>,
        inventory: Inventory,
    ) -> Result<(Inventory, Pruned), Trouble> {
        let lock = self.kustomizations.targets.lock(self.others.identity());
        // Until everything that deletes knows the inventory without them.
        let _alone = lock.write_owned().await;
        confirm::unchanged(writer.object(), writer.context())
            .await
            .map_err(Trouble::Error)?;
        let pruned = apply::prune(self.cluster, self.owner, &unwanted, self.others);
        let pruned = tokio::time::timeout(settings.timeout, pruned).await;
        let pruned = pruned.map_err(|_elapsed| {
            let message = format!(
                "pruning took longer than {:?}: context deadline exceeded",
                settings.timeout
            );
            Failure::prune(message, inventory.to_status()).soon()
        })?;
        self.settle(writer, inventory, pruned)
    }

    /// The inventory without the objects that are gone.
    fn settle(
        &self,
        writer: &Writer,
        mut inventory: Inventory,
        pruned: Pruned,
    ) -> Result<(Inventory, Pruned), Trouble> {
        for id in pruned.settled() {
            inventory.remove(id);
        }
        self.kustomizations
            .inventories
            .settle(writer.object(), &inventory);
        self.kustomizations.wake(&pruned.heirs);
        if pruned.failures.is_empty() {
            return Ok((inventory, pruned));
        }
        let message = summary(&pruned.failures, pruned.blocked.len());
        Err(Failure::prune(message, inventory.to_status()).into())
    }
}

/// What the Kustomization waits for, if anything: objects not tried yet and, if the policy is to wait, also objects
/// that are not gone yet.
pub(super) fn prune_wait(pruned: &Pruned, waits: bool) -> Option<String> {
    let (Some(first), true) = (pruned.waiting.first(), waits || !pruned.blocked.is_empty()) else {
        return None;
    };
    let more = pruned.waiting.len() + pruned.blocked.len() - 1;
    let others = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    Some(format!("waiting for the termination of {first}{others}"))
}
