//! The label by which the Service finds the leader's pod.

use std::{convert::Infallible, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use muster_api::labels::label::ZONES_LEADER;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{MANAGER, Zones};
use crate::runtime::{Api, CallError, call, call::error_chain};

/// How often the label is checked.
const AGAIN: Duration = Duration::from_secs(10);
/// The same without such a pod: the process runs outside of the cluster, for example on a developer's machine.
const WITHOUT_A_POD: Duration = Duration::from_mins(10);
/// The same after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Keeps the label on the pod `instance`, and on no other, until it is dropped. A process that is not a pod of the
/// namespace has none.
pub(super) async fn run(zones: &Zones, instance: &str) -> Infallible {
    loop {
        let pause = match keep(zones, instance).await {
            Ok(true) => AGAIN,
            Ok(false) => WITHOUT_A_POD,
            Err(error) => {
                warn!(
                    error = error_chain(&error),
                    "the label of the leader could not be written"
                );
                AFTER_FAILURE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Labels the pod. Returns whether it exists.
async fn keep(zones: &Zones, instance: &str) -> Result<bool, CallError> {
    let pods: Api<Pod> = Api::namespaced(zones.client.clone(), &zones.settings.namespace);
    let labelled = ListParams::default().labels(ZONES_LEADER);
    let listed = call("listing the pods of the leader", pods.list_metadata(&labelled)).await?;
    let (ours, others): (Vec<_>, Vec<_>) = listed.items.iter().partition(|pod| pod.name_any() == instance);
    // The predecessor's label is removed first: the Service must not find two.
    for pod in others {
        label(&pods, &pod.name_any(), Value::Null).await?;
    }
    if !ours.is_empty() {
        return Ok(true);
    }
    let is_there = label(&pods, instance, json!("true")).await?;
    if is_there {
        info!(pod = instance, "this pod is labeled as the leader");
    } else {
        info!(
            pod = instance,
            "there is no such pod, so no Service can find this process by the leader label"
        );
    }
    Ok(is_there)
}

/// Writes the label. Returns whether the pod exists.
async fn label(pods: &Api<Pod>, name: &str, value: Value) -> Result<bool, CallError> {
    let by = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"metadata": {"labels": {ZONES_LEADER: value}}}));
    let write = pods.patch_metadata(name, &by, &patch);
    match call(format!("labeling pod {name}"), write).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
