//! The Lease of the agent: while it is renewed, the controller considers the agent alive.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use muster_api::labels::{self, label};
use muster_controllers::{
    node::NAMESPACE,
    runtime::{Api, CallError, Clock, call, call::error_chain},
};
use serde_json::{Value, json};
use tracing::warn;

use crate::MANAGER;

/// The renewal interval.
pub const PERIOD: Duration = Duration::from_secs(10);

/// Renews the Lease of this node until the future is dropped. With the uid of the Node as owner, the Lease is deleted
/// with the Node.
pub async fn renew(client: Client, node: String, uid: Option<String>, clock: Clock) {
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = write(&leases, &node, uid.as_deref(), clock.now()).await {
            warn!(error = error_chain(&error), "the Lease could not be renewed");
        }
    }
}

async fn write(leases: &Api<Lease>, node: &str, uid: Option<&str>, now: Timestamp) -> Result<(), CallError> {
    let by = PatchParams::apply(MANAGER).force();
    let what = format!("renewing Lease {NAMESPACE}/{node}");
    let lease = Patch::Apply(lease(node, uid, now));
    call(what, leases.patch(node, &by, &lease)).await.map(drop)
}

fn lease(node: &str, uid: Option<&str>, now: Timestamp) -> Value {
    let owner = uid.map(|uid| json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}));
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node,
            "namespace": NAMESPACE,
            "labels": {label::APP_MANAGED_BY: labels::MUSTER},
            "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": 60,
            "renewTime": format!("{now:.6}"),
        },
    })
}
