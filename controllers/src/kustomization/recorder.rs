//! The recorded inventory: what fits into it, and what is written to it before objects are created.

use async_trait::async_trait;
use muster_sync::{
    apply::{Ledger, LedgerError},
    inventory::Inventory,
};
use tokio::sync::Mutex;

use super::{
    Kustomizations,
    outcome::Failure,
    status::{self, Writer},
    targets::Identity,
    work::Work,
};

/// The maximum size of a written inventory, in bytes of JSON: etcd accepts 1.5 MiB in one write, and a sixth of it is
/// left for the rest of the object, which is its spec, conditions and managedFields. About 12,000 objects with names of
/// usual length.
const INVENTORY_MAX: usize = 1_310_720;

/// Whether the resulting record fits into the status.
pub(super) fn admit(before: &Inventory, wanted: &Inventory) -> Result<(), Failure> {
    let recorded = before.clone().merged(wanted);
    let bytes = size(&recorded);
    if bytes > INVENTORY_MAX {
        return Err(Failure::too_large(recorded.len(), bytes, INVENTORY_MAX));
    }
    Ok(())
}

/// The bytes that an inventory takes in a status.
fn size(inventory: &Inventory) -> usize {
    const AROUND: usize = r#"{"id":"","v":""},"#.len();
    let entries = inventory.to_status().entries;
    entries
        .iter()
        .map(|entry| entry.id.len() + entry.version.len() + AROUND)
        .sum()
}

/// Writes ids to the status before their objects are created.
pub(super) struct Recorder<'a> {
    writer: Mutex<&'a mut Writer>,
    work: &'a Work,
    kustomizations: &'a Kustomizations,
    cluster: &'a Identity,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        writer: &'a mut Writer,
        work: &'a Work,
        kustomizations: &'a Kustomizations,
        cluster: &'a Identity,
    ) -> Self {
        Self {
            writer: Mutex::new(writer),
            work,
            kustomizations,
            cluster,
        }
    }
}

#[async_trait]
impl Ledger for Recorder<'_> {
    async fn record(&self, planned: &Inventory) -> Result<(), LedgerError> {
        let mut writer = self.writer.lock().await;
        // Ids that are recorded already are no news for other deleters.
        let known = self.kustomizations.inventories.of(writer.object());
        let _lock = if planned.iter().all(|(id, _)| known.contains(id)) {
            None
        } else {
            Some(self.kustomizations.targets.lock(self.cluster).read_owned().await)
        };
        let recorded = writer.inventory().merged(planned).to_status();
        let status = status::begun(&writer, self.work, recorded);
        writer
            .write(status)
            .await
            .map_err(|error| LedgerError(Box::new(error)))
    }
}
