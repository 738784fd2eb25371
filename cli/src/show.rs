//! Follows the fleet and shows it again at each change.

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc, time::Duration};

use kube::Client;
use muster_dashboard::Snapshot;
use muster_fleet::{Extent, follow, read};
use tokio::time::sleep;

use crate::output::Out;

/// How often a terminal is redrawn without a change: ages advance.
const TICK: Duration = Duration::from_secs(1);

/// Calls `show` with the current fleet at each change, and on a terminal each second, until it returns `Break`; returns
/// its value.
///
/// A permanent error, such as a missing right, is returned at once. A later error is reported once, and retried.
pub(crate) async fn watch<T>(
    client: &Client,
    namespace: &str,
    out: &Out,
    mut show: impl FnMut(&Snapshot) -> anyhow::Result<ControlFlow<T>>,
) -> anyhow::Result<T> {
    read(client, namespace).await?;
    let mut snapshots = follow(client, namespace, Extent::Fleet);
    let mut reported = BTreeSet::new();
    loop {
        tokio::select! {
            changed = snapshots.changed() => changed?,
            () = sleep(TICK), if out.is_terminal() => {}
        }
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        for trouble in &snapshot.troubles {
            if reported.insert((trouble.what.clone(), trouble.message.clone())) {
                complain!(out, "warning: {}: {}", trouble.what, trouble.message);
            }
        }
        if snapshot.is_complete
            && let ControlFlow::Break(end) = show(&snapshot)?
        {
            return Ok(end);
        }
    }
}
