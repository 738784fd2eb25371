//! The annotation `grafana.com/ready-time`, from which the delay between zones is measured: kept on pods of budgets
//! with a delay.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::api::{Patch, PatchParams};
use muster_zones::{
    budget::{KnownBudgets, ready_time_patch},
    model::Pod,
};
use serde_json::Value;
use tracing::warn;

use super::{MANAGER, Zones};
use crate::runtime::{Api, call::call_within, call::error_chain};

/// The wait before a failed write is retried, and the minimum between two rounds: changes of pods arrive in bursts.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The maximum time between two rounds, which read and write nothing if nothing is due.
const AGAIN: Duration = Duration::from_secs(10);

/// Keeps the annotations up to date until it is dropped.
pub(super) async fn run(zones: &Zones) -> Infallible {
    let mut changes = zones.rows.pods.changes();
    loop {
        let is_delayed = zones
            .rows
            .budgets
            .read()
            .iter()
            .any(|budget| !budget.delay.is_zero());
        let mut failed = BTreeSet::new();
        if is_delayed {
            let known = zones.rows.budgets.read().clone();
            for pod in zones
                .rows
                .pods
                .all()
                .into_iter()
                .filter(|pod| is_counted(&known, pod))
            {
                keep(zones, &pod, &mut failed).await;
            }
        }
        tokio::time::sleep(AFTER_FAILURE).await;
        if failed.is_empty() {
            // Budgets change, too. The error is unreachable: the index lives as long as this.
            let _ = tokio::time::timeout(AGAIN, changes.changed()).await;
        }
    }
}

fn is_counted(known: &KnownBudgets, pod: &Pod) -> bool {
    let budget = known.find(&pod.labels).ok().flatten(); // if two budgets match, neither allows anything
    budget.is_some_and(|budget| !budget.delay.is_zero())
}

async fn keep(zones: &Zones, pod: &Arc<Pod>, failed: &mut BTreeSet<String>) {
    let Some(patch) = ready_time_patch(pod, zones.clock.now()) else {
        return;
    };
    let pods: Api<ApiPod> = Api::namespaced(zones.client.clone(), &zones.settings.namespace);
    let by = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let what = format!("writing the ready time of pod {}", pod.name);
    let patch = Patch::Merge(with_uid(patch, &pod.uid));
    let write = pods.patch_metadata(&pod.name, &by, &patch);
    match call_within(zones.settings.ready_time_timeout, what, write).await {
        Ok(_) => {}
        // It is gone, or another one has its name.
        Err(error) if error.is_not_found() || error.is_conflict() => {}
        Err(error) => {
            warn!(
                pod = pod.name,
                error = error_chain(&error),
                "a pod's ready time could not be written"
            );
            failed.insert(pod.name.clone());
        }
    }
}

fn with_uid(mut patch: Value, uid: &str) -> Value {
    patch["metadata"]["uid"] = uid.into();
    patch
}
