//! If Flux runs, Flux reconciles, and muster leaves the objects alone.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bed, config, config_yaml, kustomization, repository};

#[tokio::test(start_paused = true)]
async fn nothing_is_done_while_flux_is_there() {
    let bed = Bed::new();
    let first = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &first).await;
    let flux = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "kustomize-controller", "labels": {"app.kubernetes.io/part-of": "flux"}},
        "spec": {"selector": {"matchLabels": {"app": "k"}}, "template": {"metadata": {"labels": {"app": "k"}},
            "spec": {"containers": [{"name": "manager", "image": "flux"}]}}}});
    bed.create("/apis/apps/v1/namespaces/kube-system/deployments", flux)
        .await;
    let events = "/apis/events.k8s.io/v1/namespaces/kube-system/events";
    bed.until(events, |list| {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["reason"] == "FluxPresent")
    })
    .await;
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
    bed.delete(&config("a")).await;
    bed.pass(Duration::from_secs(7_200)).await;
    assert!(bed.read(&config("a")).await.is_none());
    let source = bed.read(&repository("src")).await.unwrap();
    assert_eq!(
        source["status"]["artifact"]["revision"],
        format!("main@sha1:{first}")
    );
    bed.delete("/apis/apps/v1/namespaces/kube-system/deployments/kustomize-controller")
        .await;
    bed.until_at("app", &second).await;
    assert!(bed.read(&kustomization("app")).await.is_some());
}
