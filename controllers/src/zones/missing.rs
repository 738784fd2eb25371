//! Creates missing ZoneRollouts of groups. The first pass over a new one writes its status: each set counts as scaled
//! down at that time, because an earlier record, if there was one, is unknown.

use std::{convert::Infallible, time::Duration};

use kube::runtime::reflector::{ObjectRef, Store};
use muster_api::ZoneRollout;
use tracing::warn;

use super::{Zones, act};
use crate::runtime::call::error_chain;

/// How often deleted ZoneRollouts are re-created.
const AGAIN: Duration = Duration::from_secs(5);

/// Creates missing ZoneRollouts, until it is dropped.
pub(super) async fn run(zones: &Zones, store: &Store<ZoneRollout>) -> Infallible {
    let rows = &zones.rows;
    rows.sets.synced().await;
    // Its writer lives as long as this, so the error is unreachable.
    let _ = store.wait_until_ready().await;
    let mut changes = rows.sets.changes();
    loop {
        for (name, group) in rows.groups() {
            let key = ObjectRef::new(&name).within(&zones.settings.namespace);
            if store.get(&key).is_none()
                && let Err(error) = act::create_rollout(zones, &group).await
            {
                warn!(
                    group,
                    error = error_chain(&error),
                    "a ZoneRollout could not be created"
                );
            }
        }
        tokio::select! {
            // The index lives as long as this.
            _changed = changes.changed() => {}
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}
