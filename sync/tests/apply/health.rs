//! A health check names the first unhealthy object and why, and counts the rest.

use std::time::Duration;

use jiff::Timestamp;
use muster_sync::{
    apply::Jobs,
    health::{
        check::check,
        evidence::{Need, Target, Watch},
    },
    inventory::ObjectId,
};
use serde_json::{Value, json};

use crate::support::{Bed, config_map, deployment, widget, widget_definition};

fn target(kind: &str, group: &str, name: &str) -> (ObjectId, String) {
    let id = ObjectId {
        namespace: "default".into(),
        name: name.into(),
        group: group.into(),
        kind: kind.into(),
    };
    (id, "v1".into())
}

async fn summary(bed: &Bed, targets: &[(ObjectId, String)]) -> String {
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let targets = targets.iter().cloned();
    let mut watch = Watch::new(
        targets
            .map(|(id, version)| Target::new(id, version, Need::Nothing, None))
            .collect(),
        None,
    );
    check(&bed.cluster, &mut watch, Duration::ZERO, &Jobs::default(), now)
        .await
        .unwrap()
        .summary()
}

async fn status(bed: &Bed, path: &str, status: Value) {
    bed.edit(&format!("{path}/status"), json!({ "status": status }))
        .await;
}

#[tokio::test(start_paused = true)]
async fn all_well_says_nothing() {
    let bed = Bed::new();
    bed.applied(&[config_map("a", &json!({}))]).await;
    assert_eq!(summary(&bed, &[target("ConfigMap", "", "a")]).await, "");
}

#[tokio::test(start_paused = true)]
async fn the_cause_is_that_of_the_newest_pod() {
    let bed = Bed::new();
    bed.applied(&[deployment("d", "nginx:bad"), deployment("e", "nginx")])
        .await;
    let targets = [
        target("ConfigMap", "", "lost"),
        target("Deployment", "apps", "d"),
        target("Deployment", "apps", "e"),
    ];
    assert_eq!(
        summary(&bed, &targets[1..]).await,
        "Deployment/default/d status: 'InProgress': Replicas: 0/1, and 1 more"
    );
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "d"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:bad"}]}})
    };
    for name in ["d-old", "d-new"] {
        bed.send("POST", "/api/v1/namespaces/default/pods", Some(pod(name)))
            .await
            .unwrap();
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
    }
    let waiting = |reason: &str| {
        json!({"phase": "Pending", "containerStatuses": [{"name": "main", "image": "nginx:bad", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": reason, "message": "Back-off pulling image"}}}]})
    };
    status(
        &bed,
        "/api/v1/namespaces/default/pods/d-old",
        waiting("CrashLoopBackOff"),
    )
    .await;
    status(
        &bed,
        "/api/v1/namespaces/default/pods/d-new",
        waiting("ImagePullBackOff"),
    )
    .await;
    assert_eq!(
        summary(&bed, &targets[1..]).await,
        "Deployment/default/d status: 'InProgress': Replicas: 0/1: pod d-new: container main: ImagePullBackOff \
         (Back-off pulling image), and 1 more"
    );
    let exceeded = json!({"observedGeneration": 1, "conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
    status(&bed, "/apis/apps/v1/namespaces/default/deployments/d", exceeded).await;
    assert_eq!(
        summary(&bed, &targets).await,
        "Deployment/default/d status: 'Failed': Progress deadline exceeded: pod d-new: container main: ImagePullBackOff \
         (Back-off pulling image), and 2 more"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_not_found() {
    let bed = Bed::new();
    bed.applied(&[widget_definition("Namespaced"), widget("w", 1)])
        .await;
    assert_eq!(summary(&bed, &[target("Widget", "example.org", "w")]).await, "");
    assert_eq!(
        summary(&bed, &[target("Widget", "example.org", "lost")]).await,
        "Widget/default/lost status: 'NotFound': Resource not found"
    );
    assert_eq!(
        summary(&bed, &[target("Gadget", "example.org", "lost")]).await,
        "Gadget/default/lost status: 'NotFound': Resource not found"
    );
}
