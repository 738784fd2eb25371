//! Clusters that are known and not seen: the registry is a watch, and may be behind what another leader has seen and decided on.
//!
//! Invariant: nobody loses a charge, and no row is left out of a memory that is rebuilt, because of a Cluster that is there (W1, W7).

use std::{collections::BTreeMap, sync::Arc};

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

    fn is_missing(&self, seen: &BTreeMap<&str, &str>) -> bool {
        !seen.get(self.name.as_str()).is_some_and(|uid| self.is(uid))
    }
}

/// Fails if a Cluster is there that is charged, or of whose row the memory is to be rebuilt, and `seen` does not have it.
pub async fn look<K: Rolled>(
    module: &str,
    memory: &Recalled,
    rows: &BTreeMap<String, AssemblageRow>,
    seen: &[Arc<ClusterRow>],
    modules: &Modules<K>,
) -> Result<(), Error> {
    let seen = seen
        .iter()
        .map(|row| (row.name.as_str(), row.uid.as_str()))
        .collect();
    let unseen = if memory.lost {
        owners(module, rows, &seen)
    } else {
        charged(&memory.memory, &seen)
    };
    for unseen in unseen {
        let there = modules.context.registry.read_uid(&unseen.name).await?;
        if there.is_some_and(|uid| unseen.is(&uid)) {
            return Err(Error::Unseen { cluster: unseen.name });
        }
    }
    Ok(())
}

fn charged(memory: &Memory, seen: &BTreeMap<&str, &str>) -> Vec<Unseen> {
    let charges = memory.charges.iter().map(|(unit, charge)| Unseen {
        name: unit.as_str().to_owned(),
        incarnation: Some(charge.incarnation),
    });
    charges.filter(|cluster| cluster.is_missing(seen)).collect()
}

/// Those that own an assemblage with a row of the module. One without an owner is of whoever has the name.
fn owners(module: &str, rows: &BTreeMap<String, AssemblageRow>, seen: &BTreeMap<&str, &str>) -> Vec<Unseen> {
    let with_row = rows
        .iter()
        .filter(|(_, own)| own.syncs.iter().any(|row| row.name == module));
    let owners = with_row.map(|(name, own)| Unseen {
        name: name.clone(),
        incarnation: own.owner.as_deref().map(Incarnation::of),
    });
    owners.filter(|cluster| cluster.is_missing(seen)).collect()
}
