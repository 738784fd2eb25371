//! Clusters that are known and not seen: the registry is a watch, and may be behind what another leader has seen and decided on.
//!
//! Invariant: nobody loses a charge, and no row is left out of a memory that is rebuilt, because of a Cluster that is there (W1, W7).

use std::sync::Arc;

use muster_rollout::{Incarnation, Memory};

use super::{Error, Modules, kind::Rolled, memory::Recalled, rows::AssemblageRow};
use crate::registry::ClusterRow;

/// A Cluster that ought to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unseen {
    name: String,
    /// Which Cluster of that name; none: whichever there is.
    incarnation: Option<Incarnation>,
}

impl Unseen {
    fn is(&self, uid: &str) -> bool {
        self.incarnation
            .is_none_or(|incarnation| incarnation == Incarnation::of(uid))
    }

    /// `seen` is in the order of the names.
    fn is_missing(&self, seen: &[Arc<ClusterRow>]) -> bool {
        let place = seen.binary_search_by(|row| row.name.cmp(&self.name));
        let row = place.ok().and_then(|place| seen.get(place));
        !row.is_some_and(|row| self.is(&row.uid))
    }
}

/// Fails if a Cluster is there that is charged, or of whose row the memory is to be rebuilt, and `seen`, which is in the order of the
/// names, does not have it.
pub async fn look<K: Rolled>(
    module: &str,
    memory: &Recalled,
    rows: &[Arc<AssemblageRow>],
    seen: &[Arc<ClusterRow>],
    modules: &Modules<K>,
) -> Result<(), Error> {
    let unseen = if memory.lost {
        owners(module, rows, seen)
    } else {
        charged(&memory.memory, seen)
    };
    for unseen in unseen {
        let there = modules.context.registry.read_uid(&unseen.name).await?;
        if there.is_some_and(|uid| unseen.is(&uid)) {
            return Err(Error::Unseen { cluster: unseen.name });
        }
    }
    Ok(())
}

fn charged(memory: &Memory, seen: &[Arc<ClusterRow>]) -> Vec<Unseen> {
    let charges = memory.charges.iter().map(|(unit, charge)| Unseen {
        name: unit.as_str().to_owned(),
        incarnation: Some(charge.incarnation),
    });
    charges.filter(|cluster| cluster.is_missing(seen)).collect()
}

/// Those that own an assemblage with a row of the module. One without an owner is of whoever has the name.
fn owners(module: &str, rows: &[Arc<AssemblageRow>], seen: &[Arc<ClusterRow>]) -> Vec<Unseen> {
    let with_row = rows.iter().filter(|own| own.ours && own.of(module).is_some());
    let owners = with_row.map(|own| Unseen {
        name: own.name.clone(),
        incarnation: own.owner.as_deref().map(Incarnation::of),
    });
    owners.filter(|cluster| cluster.is_missing(seen)).collect()
}
