//! With `spec.kubeConfig` everything happens in another cluster, through the registry's client.

use std::time::Duration;

use muster_apiserver::ApiServer;
use serde_json::json;

use crate::support::{Bed, config, config_yaml, kustomization, message, read, until};

#[tokio::test(start_paused = true)]
async fn the_objects_are_in_the_other_cluster() {
    let bed = Bed::new().await;
    let downstream = ApiServer::builder().in_process().unwrap();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({"kubeConfig": {"secretRef": {"name": "eu-1-kubeconfig"}}, "deletionPolicy": "WaitForTermination"})).await;
    let object = bed.until_ready("app", "False ReconciliationFailed").await;
    assert_eq!(
        message(&object, "Ready"),
        "failed to build kube client: NoKubeconfig: Secret fleet/eu-1-kubeconfig is not there"
    );
    bed.remotes
        .0
        .lock()
        .insert("eu-1-kubeconfig".into(), downstream.client());
    let started = tokio::time::Instant::now();
    bed.until_at("app", &commit).await;
    assert!(
        started.elapsed() <= Duration::from_secs(11),
        "{:?}",
        started.elapsed()
    );
    assert!(bed.read(&config("a")).await.is_none(), "nothing here");
    assert_eq!(
        read(&downstream, &config("a")).await.unwrap()["data"]["key"],
        "one"
    );
    bed.remotes.0.lock().clear();
    bed.delete(&kustomization("app")).await;
    bed.pass(Duration::from_secs(600)).await;
    assert!(
        bed.read(&kustomization("app")).await.is_some(),
        "a cluster that is away is no reason to forget its objects"
    );
    bed.remotes
        .0
        .lock()
        .insert("eu-1-kubeconfig".into(), downstream.client());
    bed.until_gone(&kustomization("app")).await;
    until(&downstream, config("a"), |object| object.is_none().then_some(())).await;
}
