//! A view of the fleet that is shown again at each change.

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc, time::Duration};

use kube::Client;
use muster_dashboard::Snapshot;
use muster_fleet::{Extent, follow, read};
use tokio::time::sleep;

use crate::output::Out;

/// How often a terminal is written again when nothing changes: ages tick.
const TICK: Duration = Duration::from_secs(1);

/// Calls `show` with the fleet as it is, at each change, and on a terminal each second, until it breaks off; gives what it breaks off with.
///
/// What is wrong for good, such as a right that is missing, is an error at once. What fails later is told once, and tried again.
pub(crate) async fn watch<T>(
    client: &Client,
    namespace: &str,
    out: &Out,
    mut show: impl FnMut(&Snapshot) -> anyhow::Result<ControlFlow<T>>,
) -> anyhow::Result<T> {
    read(client, namespace).await?;
    let mut snapshots = follow(client, namespace, Extent::Fleet);
    let mut told = BTreeSet::new();
    loop {
        tokio::select! {
            changed = snapshots.changed() => changed?,
            () = sleep(TICK), if out.is_terminal() => {}
        }
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        for trouble in &snapshot.troubles {
            if told.insert((trouble.what.clone(), trouble.message.clone())) {
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
