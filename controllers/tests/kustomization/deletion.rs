//! What becomes of the objects when their Kustomization is deleted.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bed, NS, config, config_yaml, kustomization, message};

/// Deletes a Kustomization with the given fields; returns whether its object went with it.
async fn takes_along(extra: serde_json::Value) -> bool {
    let bed = Bed::new().await;
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(extra).await;
    bed.until_at("app", &commit).await;
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    bed.read(&config("a")).await.is_none()
}

#[tokio::test(start_paused = true)]
async fn by_its_policy() {
    assert!(takes_along(json!({})).await);
    assert!(!takes_along(json!({"prune": false})).await);
    assert!(!takes_along(json!({"deletionPolicy": "Orphan"})).await);
    assert!(takes_along(json!({"deletionPolicy": "Delete", "prune": false})).await);
    assert!(takes_along(json!({"deletionPolicy": "WaitForTermination"})).await);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_one_takes_nothing_along() {
    let bed = Bed::new().await;
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &commit).await;
    bed.edit(&kustomization("app"), json!({"spec": {"suspend": true}}))
        .await;
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    assert!(bed.read(&config("a")).await.is_some());
}

fn held_yaml() -> String {
    config_yaml("a", "x").replace(
        "namespace: default",
        "namespace: default, finalizers: [example.org/hold]",
    )
}

#[tokio::test(start_paused = true)]
async fn wait_for_termination_waits() {
    let bed = Bed::new().await;
    let commit = bed.commit(&[("app/a.yaml", &held_yaml())]);
    bed.deploy(json!({"deletionPolicy": "WaitForTermination"})).await;
    bed.until_at("app", &commit).await;
    bed.delete(&kustomization("app")).await;
    bed.pass(Duration::from_secs(3_600)).await;
    let object = bed.read(&kustomization("app")).await.expect("it waits");
    assert_eq!(
        message(&object, "Ready"),
        "waiting for the termination of ConfigMap/default/a"
    );
    bed.edit(&config("a"), json!({"metadata": {"finalizers": null}}))
        .await;
    bed.until_gone(&kustomization("app")).await;
}

#[tokio::test(start_paused = true)]
async fn delete_does_not_wait() {
    let bed = Bed::new().await;
    let commit = bed.commit(&[("app/a.yaml", &held_yaml())]);
    bed.deploy(json!({"deletionPolicy": "Delete"})).await;
    bed.until_at("app", &commit).await;
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    assert!(bed.read(&config("a")).await.unwrap()["metadata"]["deletionTimestamp"].is_string());
}

/// A kind or a namespace that is removed is no wish to empty a cluster.
#[tokio::test(start_paused = true)]
async fn with_its_kind_or_its_namespace_goes_nothing_else() {
    for path in [
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kustomizations.kustomize.toolkit.fluxcd.io"
            .to_owned(),
        format!("/api/v1/namespaces/{NS}"),
    ] {
        let bed = Bed::new().await;
        let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
        bed.deploy(json!({})).await;
        bed.until_at("app", &commit).await;
        bed.delete(&path).await;
        bed.until_gone(&kustomization("app")).await;
        bed.pass(Duration::from_secs(60)).await;
        assert!(bed.read(&config("a")).await.is_some(), "{path}");
    }
}
