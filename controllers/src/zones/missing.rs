//! Groups without a ZoneRollout get one.

use std::{convert::Infallible, time::Duration};

use kube::runtime::reflector::{ObjectRef, Store};
use muster_api::{ZoneRollout, zonerollout::ZoneRolloutStatus};
use muster_zones::{model::Set, scale::times::all_now};
use tracing::warn;

use super::{Error, Zones, act};
use crate::runtime::call::explain;

/// How often it is looked for ZoneRollouts that somebody deleted.
const AGAIN: Duration = Duration::from_secs(5);

/// Makes the ZoneRollouts that are missing, until it is dropped.
pub(super) async fn run(zones: &Zones, store: &Store<ZoneRollout>) -> Infallible {
    let rows = &zones.rows;
    rows.sets.synced().await;
    // Its writer lives as long as this: the only error is not reachable.
    let _ = store.wait_until_ready().await;
    let mut changes = rows.sets.changes();
    loop {
        for (name, group) in rows.groups() {
            let key = ObjectRef::new(&name).within(&zones.settings.namespace);
            if store.get(&key).is_none()
                && let Err(error) = make(zones, &group).await
            {
                warn!(group, error = explain(&error), "a ZoneRollout could not be made");
            }
        }
        tokio::select! {
            // The index lives as long as this.
            _changed = changes.changed() => {}
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

/// Each set of it counts as scaled down now: what was on record before, if anything was, is not known.
async fn make(zones: &Zones, group: &str) -> Result<(), Error> {
    let Some(made) = act::create_rollout(zones, group).await? else {
        return Ok(());
    };
    let key = crate::runtime::Key::of(&made);
    let sets: Vec<Set> = zones
        .rows
        .sets
        .about(&key)
        .iter()
        .map(|(_, set)| Set::clone(set))
        .collect();
    let status = ZoneRolloutStatus {
        last_downscale: all_now(&sets, zones.clock.now()),
        ..ZoneRolloutStatus::default()
    };
    let version = made.metadata.resource_version.unwrap_or_default();
    act::replace_status(zones, group, &version, status).await?;
    Ok(())
}
