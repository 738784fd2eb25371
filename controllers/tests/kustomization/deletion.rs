//! What happens to the objects when their Kustomization is deleted.

use std::time::Duration;

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::json;

use crate::support::{Bed, NS, config, config_yaml, ids, kustomization, message, ready};

/// Deletes a Kustomization with the given fields; returns whether its object was deleted with it.
async fn takes_along(extra: serde_json::Value) -> bool {
    let bed = Bed::new();
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
    let bed = Bed::new();
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
    let bed = Bed::new();
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
    // Waiting is not a failure.
    assert_eq!(ready(&object), "Unknown Progressing");
    bed.edit(&config("a"), json!({"metadata": {"finalizers": null}}))
        .await;
    bed.until_gone(&kustomization("app")).await;
}

/// An object that cannot be deleted keeps the Kustomization, is named, and is retried.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_deleted_keeps_it() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "x")),
        ("app/b.yaml", &config_yaml("b", "x")),
    ]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &commit).await;
    let deleting = Match {
        verbs: vec![Verb::Delete],
        path: Some("configmaps/b".into()),
        ..Match::default()
    };
    let refused = Rule::always(deleting, Fault::Status(Failure::Forbidden));
    let rule = bed.api.faults().add(refused);
    bed.delete(&kustomization("app")).await;
    bed.pass(Duration::from_secs(3_600)).await;
    let object = bed.read(&kustomization("app")).await.expect("it stays");
    assert_eq!(ready(&object), "False PruneFailed");
    assert!(message(&object, "Ready").starts_with("ConfigMap/default/b delete failed (Forbidden)"));
    assert_eq!(ids(&object), ["default_b__ConfigMap"]);
    assert!(bed.read(&config("a")).await.is_none());
    bed.api.faults().remove(rule);
    let fixed_at = tokio::time::Instant::now();
    bed.until_gone(&kustomization("app")).await;
    assert!(
        fixed_at.elapsed() <= Duration::from_secs(16),
        "{:?}",
        fixed_at.elapsed()
    );
    assert!(bed.read(&config("b")).await.is_none());
}

/// A lost cluster blocks nothing if its objects should stay.
#[tokio::test(start_paused = true)]
async fn what_is_let_go_needs_no_cluster() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({"deletionPolicy": "Orphan"})).await;
    bed.until_at("app", &commit).await;
    // As Flux leaves each.
    let held = json!({"metadata": {"finalizers": ["finalizers.fluxcd.io"]}});
    bed.edit(&kustomization("app"), held).await;
    let lost = json!({"spec": {"kubeConfig": {"secretRef": {"name": "lost"}}}});
    bed.edit(&kustomization("app"), lost).await;
    bed.until_ready("app", "False ReconciliationFailed").await;
    bed.delete(&kustomization("app")).await;
    let deleted = tokio::time::Instant::now();
    bed.until_gone(&kustomization("app")).await;
    assert!(
        deleted.elapsed() <= Duration::from_secs(1),
        "{:?}",
        deleted.elapsed()
    );
}

/// Only its own deletion policy keeps a Kustomization in a namespace that is being deleted.
#[tokio::test(start_paused = true)]
async fn what_is_let_go_is_held_by_nothing() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({"deletionPolicy": "Orphan"})).await;
    bed.until_at("app", &commit).await;
    let object = bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(object["metadata"]["finalizers"], json!(null));
    let policy = json!({"spec": {"deletionPolicy": "WaitForTermination"}});
    bed.edit(&kustomization("app"), policy).await;
    bed.until(&kustomization("app"), |object| {
        object["metadata"]["finalizers"] == json!(["finalizers.fluxcd.io"])
    })
    .await;
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    assert_eq!(bed.read(&config("a")).await, None);
}

#[tokio::test(start_paused = true)]
async fn delete_does_not_wait() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &held_yaml())]);
    bed.deploy(json!({"deletionPolicy": "Delete"})).await;
    bed.until_at("app", &commit).await;
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    assert!(bed.read(&config("a")).await.unwrap()["metadata"]["deletionTimestamp"].is_string());
}

/// Removing a CRD or a namespace is not a request to empty a cluster.
#[tokio::test(start_paused = true)]
async fn with_its_kind_or_its_namespace_goes_nothing_else() {
    for path in [
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kustomizations.kustomize.toolkit.fluxcd.io"
            .to_owned(),
        format!("/api/v1/namespaces/{NS}"),
    ] {
        let bed = Bed::new();
        let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
        bed.deploy(json!({})).await;
        bed.until_at("app", &commit).await;
        bed.delete(&path).await;
        bed.until_gone(&kustomization("app")).await;
        bed.pass(Duration::from_secs(60)).await;
        assert!(bed.read(&config("a")).await.is_some(), "{path}");
    }
}
