//! Clusters that exist but are not observed yet: the registry is a watch, and may lag behind what a former leader
//! observed and decided on.
//!
//! Invariant: a Cluster that exists never loses its in-flight change, and its row is never left out of a rebuilt memory
//! (W1, W7).

use std::sync::Arc;

use muster_driver::{Holder, Rules};
use muster_rollout::{Incarnation, UnitId};

use super::{Error, Modules, kind::Rolled, memory::Recalled, rows::AssemblageRow};
use crate::registry::ClusterRow;

/// Fails if a Cluster exists that is in flight, or whose row the memory is rebuilt from, and is missing in
/// `registered`, which is sorted by name.
pub(crate) async fn check_missing<K: Rolled>(
    module: &str,
    memory: &Recalled,
    rows: &[Arc<AssemblageRow>],
    registered: &[Arc<ClusterRow>],
    modules: &Modules<K>,
) -> Result<(), Error> {
    let read = |unit: &UnitId| {
        let place = registered.binary_search_by(|row| row.name.as_str().cmp(unit.as_str()));
        let row = place.ok().and_then(|place| registered.get(place))?;
        Some(Incarnation::of(&row.uid))
    };
    let known = (!memory.lost).then_some(&memory.memory);
    let missing = muster_driver::missing(known, holders(module, rows), read, &Rules::shipped());
    for holder in missing {
        let cluster = holder.unit.to_string();
        let there = modules.context.registry.read_uid(&cluster).await?;
        if there.is_some_and(|uid| holder.is(Incarnation::of(&uid))) {
            return Err(Error::Unseen { cluster });
        }
    }
    Ok(())
}

/// The owners of assemblages with a row of the module. An assemblage without an owner belongs to any Cluster of that
/// name.
fn holders<'a>(module: &'a str, rows: &'a [Arc<AssemblageRow>]) -> impl Iterator<Item = Holder> + 'a {
    let with_row = rows
        .iter()
        .filter(move |own| own.head.ours && own.of(module).is_some());
    with_row.map(|own| Holder {
        unit: own.head.name.as_str().into(),
        incarnation: own.head.owner.as_deref().map(Incarnation::of),
    })
}
