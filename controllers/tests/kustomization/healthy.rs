//! A commit becomes objects, and Ready means healthy at that commit.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    Bed, condition, config, config_yaml, deployment, deployment_yaml, done, kustomization, message, ready,
    repository,
};

#[tokio::test(start_paused = true)]
async fn a_commit_becomes_objects() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({})).await;
    let object = bed.until_at("app", &commit).await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "one");
    let revision = format!("main@sha1:{commit}");
    assert_eq!(object["status"]["observedGeneration"], 1);
    assert_eq!(object["status"]["lastAttemptedRevision"], revision);
    assert_eq!(
        object["status"]["inventory"]["entries"],
        json!([{"id": "default_a__ConfigMap", "v": "v1"}])
    );
    assert_eq!(message(&object, "Ready"), format!("Applied revision: {revision}"));
    assert_eq!(condition(&object, "Healthy").unwrap()["status"], "True");
    assert!(condition(&object, "Reconciling").is_none());
    let source = bed.read(&repository("src")).await.unwrap();
    assert_eq!(source["status"]["artifact"]["revision"], revision);
    assert_eq!(ready(&source), "True Succeeded");
}

#[tokio::test(start_paused = true)]
async fn the_next_commit_follows_within_the_interval_of_the_source() {
    let bed = Bed::new();
    let first = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &first).await;
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
    let started = tokio::time::Instant::now();
    bed.until_at("app", &second).await;
    assert!(
        started.elapsed() <= Duration::from_secs(64),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "two");
}

#[tokio::test(start_paused = true)]
async fn ready_waits_for_health_and_follows_it_at_once() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("app/d.yaml", &deployment_yaml("d", "nginx")),
        ("app/a.yaml", &config_yaml("a", "x")),
    ]);
    bed.deploy(json!({})).await;
    let object = bed.until_ready("app", "Unknown Progressing").await;
    assert_ne!(
        object["status"]["lastAppliedRevision"],
        format!("main@sha1:{commit}")
    );
    let object = bed
        .until(&kustomization("app"), |object| {
            message(object, "Reconciling").contains("Deployment/default/d status")
        })
        .await;
    assert!(
        message(&object, "Reconciling").ends_with("Deployment/default/d status: 'InProgress': Replicas: 0/1"),
        "{object:#}"
    );
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    let healthy_at = tokio::time::Instant::now();
    bed.until_at("app", &commit).await;
    assert!(
        healthy_at.elapsed() <= Duration::from_secs(2),
        "{:?}",
        healthy_at.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn not_healthy_in_time_is_a_failure_that_names_object_and_cause() {
    let bed = Bed::new();
    bed.commit(&[
        ("app/d.yaml", &deployment_yaml("d", "nginx:bad")),
        ("app/e.yaml", &deployment_yaml("e", "nginx:bad")),
        ("app/f.yaml", &deployment_yaml("f", "nginx:bad")),
    ]);
    bed.deploy(json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    let pod = json!({"metadata": {"name": "d-1", "labels": {"app": "d"}}, "spec": {"containers": [{"name": "main", "image": "nginx:bad"}]}});
    bed.create("/api/v1/namespaces/default/pods", pod).await;
    let waiting = json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "main", "image": "nginx:bad", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}}]}});
    bed.edit("/api/v1/namespaces/default/pods/d-1/status", waiting)
        .await;
    let started = tokio::time::Instant::now();
    let object = bed.until_ready("app", "False HealthCheckFailed").await;
    assert!(started.elapsed() >= Duration::from_secs(290) && started.elapsed() <= Duration::from_secs(309));
    assert_eq!(
        message(&object, "Ready"),
        "health check failed after 5m: timeout waiting for: [Deployment/default/d status: 'InProgress': Replicas: 0/1: pod d-1: \
         container main: ImagePullBackOff (Back-off), and 2 more]"
    );
    assert_eq!(object["status"]["lastAppliedRevision"], json!(null));
    for name in ["d", "e", "f"] {
        bed.edit(&format!("{}/status", deployment(name)), done(1)).await;
    }
    bed.until_ready("app", "True ReconciliationSucceeded").await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_for_good_is_not_waited_for() {
    let bed = Bed::new();
    bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx:bad"))]);
    bed.deploy(json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    let exceeded = json!({"status": {"observedGeneration": 1, "conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}});
    bed.edit(&format!("{}/status", deployment("d")), exceeded).await;
    let started = tokio::time::Instant::now();
    let object = bed.until_ready("app", "False HealthCheckFailed").await;
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(
        message(&object, "Ready")
            .contains("Deployment/default/d status: 'Failed': Progress deadline exceeded")
    );
}

/// A DaemonSet with update strategy OnDelete is healthy as soon as its running pods are.
#[tokio::test(start_paused = true)]
async fn pods_that_are_replaced_by_hand_are_not_waited_for() {
    let daemons = "/apis/apps/v1/namespaces/default/daemonsets/d";
    let yaml = |image: &str| {
        deployment_yaml("d", image)
            .replace("kind: Deployment", "kind: DaemonSet")
            .replace(
                "spec:\n  selector",
                "spec:\n  updateStrategy: {type: OnDelete}\n  selector",
            )
    };
    let counts = |generation: i64, updated: i64| {
        json!({"status": {
            "observedGeneration": generation, "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberMisscheduled": 0,
            "updatedNumberScheduled": updated, "numberAvailable": 3, "numberReady": 3,
        }})
    };
    let bed = Bed::new();
    let first = bed.commit(&[("app/d.yaml", &yaml("nginx:1"))]);
    bed.deploy(json!({})).await;
    bed.until(daemons, |_| true).await;
    bed.edit(&format!("{daemons}/status"), counts(1, 3)).await;
    bed.until_at("app", &first).await;
    let second = bed.commit(&[("app/d.yaml", &yaml("nginx:2"))]);
    bed.until(daemons, |object| object["metadata"]["generation"] == 2)
        .await;
    bed.edit(&format!("{daemons}/status"), counts(2, 0)).await;
    let started = tokio::time::Instant::now();
    bed.until_at("app", &second).await;
    assert!(
        started.elapsed() <= Duration::from_secs(6),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_paused_or_suspended_says_so() {
    let paused =
        deployment_yaml("d", "nginx").replace("spec:\n  selector", "spec:\n  paused: true\n  selector");
    let suspended = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: default}\nspec:\n  suspend: true\n  template:\n    \
                     spec: {restartPolicy: Never, containers: [{name: main, image: nginx}]}\n";
    for (yaml, expect) in [
        (
            paused.as_str(),
            "Deployment/default/d status: 'InProgress': Replicas: 0/1: the Deployment is paused (spec.paused)",
        ),
        (
            suspended,
            "Job/default/j status: 'InProgress': Job not started: the Job is suspended (spec.suspend)",
        ),
    ] {
        let bed = Bed::new();
        bed.commit(&[("app/a.yaml", yaml)]);
        bed.deploy(json!({})).await;
        let object = bed.until_ready("app", "False HealthCheckFailed").await;
        assert!(message(&object, "Ready").contains(expect), "{object:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_wait_only_the_named_objects_count() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("app/d.yaml", &deployment_yaml("d", "nginx")),
        ("app/e.yaml", &deployment_yaml("e", "nginx")),
    ]);
    bed.deploy(json!({"wait": false, "healthChecks": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "e", "namespace": "default"}]}))
        .await;
    bed.until(&kustomization("app"), |object| {
        message(object, "Reconciling").contains("Deployment/default/e status")
    })
    .await;
    bed.edit(&format!("{}/status", deployment("e")), done(1)).await;
    bed.until_at("app", &commit).await;
    bed.kustomization("other", json!({"path": "app", "wait": false}))
        .await;
    let object = bed.until_at("other", &commit).await;
    assert!(condition(&object, "Healthy").is_none());
}

#[tokio::test(start_paused = true)]
async fn after_that_ready_follows_health() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx"))]);
    bed.deploy(json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    bed.until_at("app", &commit).await;
    let broken = json!({"status": {"readyReplicas": 0, "availableReplicas": 0}});
    bed.edit(&format!("{}/status", deployment("d")), broken).await;
    let started = tokio::time::Instant::now();
    let object = bed.until_ready("app", "False HealthCheckFailed").await;
    let took = started.elapsed();
    assert!(
        took <= Duration::from_secs(950),
        "interval, jitter and timeout, but {took:?}"
    );
    assert_eq!(
        object["status"]["lastAppliedRevision"],
        format!("main@sha1:{commit}")
    );
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
}
