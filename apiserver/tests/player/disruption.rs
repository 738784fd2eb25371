//! Budgets: without a controller no pod that they select is evicted; a failed eviction is forgotten.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, EvictParams, Patch, PatchParams, PostParams};
use muster_apiserver::ApiServer;
use serde_json::json;

use crate::bed::Bed;

fn pod() -> Pod {
    let containers = json!([{"name": "main", "image": "a"}]);
    serde_json::from_value(
        json!({"metadata": {"name": "a", "labels": {"app": "a"}}, "spec": {"containers": containers}}),
    )
    .unwrap()
}

fn budget(least: i32) -> PodDisruptionBudget {
    let spec = json!({"minAvailable": least, "selector": {"matchLabels": {"app": "a"}}});
    serde_json::from_value(json!({"metadata": {"name": "b"}, "spec": spec})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_budget_without_status_refuses_evictions_with_a_ten_second_retry() {
    let api = ApiServer::in_process().unwrap();
    let (pods, budgets): (Api<Pod>, Api<PodDisruptionBudget>) = (
        Api::default_namespaced(api.client()),
        Api::default_namespaced(api.client()),
    );
    pods.create(&PostParams::default(), &pod()).await.unwrap();
    budgets.create(&PostParams::default(), &budget(0)).await.unwrap();
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("a", &PatchParams::default(), &running)
        .await
        .unwrap();
    let refused = pods.evict("a", &EvictParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}");
    };
    let details = status.details.unwrap();
    assert_eq!((status.code, details.retry_after_seconds), (429, 10));
    assert_eq!(
        details.causes[0].message,
        "The disruption budget b is still being processed by the server."
    );
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_that_stays_counts_again_after_two_minutes() {
    let bed = Bed::new();
    bed.create::<Pod>(serde_json::to_value(pod()).unwrap()).await;
    bed.create::<PodDisruptionBudget>(serde_json::to_value(budget(0)).unwrap())
        .await;
    bed.until::<PodDisruptionBudget>("b", |budget| budget["status"]["disruptionsAllowed"] == 1)
        .await;
    // The state after an eviction whose deletion failed.
    let now = bed.api.clock().stamp();
    let status = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": now}}});
    let budgets = bed.of::<PodDisruptionBudget>();
    budgets
        .patch_status("b", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    bed.until::<PodDisruptionBudget>("b", |budget| budget["status"]["currentHealthy"] == 0)
        .await;
    bed.pass(Duration::from_mins(1)).await;
    bed.until::<PodDisruptionBudget>("b", |budget| budget["status"]["currentHealthy"] == 0)
        .await;
    bed.pass(Duration::from_secs(62)).await;
    let healthy = bed.until::<PodDisruptionBudget>("b", |budget| budget["status"]["currentHealthy"] == 1);
    assert!(healthy.await["status"]["disruptedPods"].is_null());
}
