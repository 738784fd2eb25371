//! Promise: a module starts no change in a cluster whose machines are being replaced, unless it says that it may;
//! others continue, and changes in flight finish.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::bed::*;

const ASKS: (&str, &str) = ("fleet.muster.dev/upgrades", "muster");

async fn replaces_machines(bed: &Bed, cluster: &str, is_true: bool) {
    let condition = json!({
        "type": "RollingOut",
        "status": if is_true { "True" } else { "False" },
        "reason": if is_true { "RollingOut" } else { "NotRollingOut" },
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {"conditions": [condition]}});
    bed.cluster_objects()
        .patch_status(cluster, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

async fn bed(is_annotated: bool) -> Bed {
    let mut bed = Bed::without_controller(&CLUSTERS).await;
    for tag in ["one", "two"] {
        bed.release(tag, &["web"], tag);
    }
    bed.start_controller();
    if is_annotated {
        let (key, value) = ASKS;
        bed.patch_cluster("eu-1", json!({"metadata": {"annotations": {key: value}}}))
            .await;
    }
    bed
}

async fn reasons(bed: &Bed) -> Value {
    let module = bed.module("web").await.unwrap();
    module["status"]["reasons"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_in_upgrade_takes_its_turn_when_that_is_over() {
    let bed = bed(true).await;
    bed.deploy("web", "one", json!({"rollout": {"maxUnreadyClusters": 3}}))
        .await;
    replaces_machines(&bed, "eu-1", true).await;
    pass(std::time::Duration::from_secs(5)).await;
    bed.patch("web", version("two")).await;
    bed.until("the others have it, and eu-1 waits", || async {
        let waits = reasons(&bed).await.as_array()?.iter().any(|group| {
            let clusters = group["clusters"].as_str();
            group["reason"] == "RollingOut" && clusters == Some("eu-1")
        });
        (waits && bed.texts("web").await == ["one", "two", "two"]).then_some(())
    })
    .await;
    let module = bed.module("web").await.unwrap();
    assert!(
        module["status"]["attention"]
            .to_string()
            .contains("machines of Cluster eu-1 are being replaced"),
        "{module}"
    );
    replaces_machines(&bed, "eu-1", false).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_module_that_avoids_nothing_goes_in() {
    let bed = bed(true).await;
    bed.deploy("web", "one", json!({"avoid": []})).await;
    replaces_machines(&bed, "eu-1", true).await;
    pass(std::time::Duration::from_secs(5)).await;
    bed.patch("web", version("two")).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
}

/// Without the annotation muster does not evaluate Cluster API's conditions of machines.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_asks_for_no_upgrades_is_not_avoided() {
    let bed = bed(false).await;
    bed.deploy("web", "one", json!({})).await;
    replaces_machines(&bed, "eu-1", true).await;
    pass(std::time::Duration::from_secs(5)).await;
    bed.patch("web", version("two")).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
}
