//! Manual changes are reverted, at the next interval or on request.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bed, config, config_yaml, kustomization};

#[tokio::test(start_paused = true)]
async fn at_the_next_interval() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "one")),
        ("app/b.yaml", &config_yaml("b", "one")),
    ]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &commit).await;
    bed.edit(&config("a"), json!({"data": {"key": "by hand"}})).await;
    bed.delete(&config("b")).await;
    let started = tokio::time::Instant::now();
    bed.until(&config("a"), |object| object["data"]["key"] == "one")
        .await;
    bed.until(&config("b"), |object| object["data"]["key"] == "one")
        .await;
    assert!(
        started.elapsed() <= Duration::from_secs(640),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn at_once_when_asked_for() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &commit).await;
    bed.edit(&config("a"), json!({"data": {"key": "by hand"}})).await;
    let started = tokio::time::Instant::now();
    bed.request("app", "now").await;
    bed.until(&config("a"), |object| object["data"]["key"] == "one")
        .await;
    let handled = |object: &serde_json::Value| object["status"]["lastHandledReconcileAt"] == "now";
    bed.until(&kustomization("app"), handled).await;
    assert!(
        started.elapsed() <= Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn not_while_suspended() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &commit).await;
    bed.edit(&kustomization("app"), json!({"spec": {"suspend": true}}))
        .await;
    bed.edit(&config("a"), json!({"data": {"key": "by hand"}})).await;
    bed.request("app", "now").await;
    bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "by hand");
    bed.edit(&kustomization("app"), json!({"spec": {"suspend": false}}))
        .await;
    bed.until(&config("a"), |object| object["data"]["key"] == "two")
        .await;
}
