//! Deployments: from a template to available pods, from one template to the next, and what blocks them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use muster_apiserver::ChangeKind;
use muster_apiserver::record::EventRecord;
use serde_json::{Value, json};

use crate::bed::{Bed, condition, deployment, image, is_done, reason, set_image};

#[tokio::test(start_paused = true)]
async fn becomes_available_after_the_delay() {
    let bed = Bed::new();
    bed.create::<Deployment>(deployment("web", 3, "web:1")).await;
    let young = bed
        .until::<Deployment>("web", |d| d["status"]["replicas"] == 3)
        .await;
    assert_eq!(reason(&young, "Available"), "MinimumReplicasUnavailable");
    assert_eq!(condition(&young, "Available")["status"], "False");
    assert_eq!(young["status"]["unavailableReplicas"], 3);
    assert!(bed.elapsed() < Duration::from_secs(1));
    let done = bed.deployment_done("web").await;
    assert!(bed.elapsed() >= Duration::from_secs(1) && bed.elapsed() < Duration::from_secs(2));
    assert_eq!(reason(&done, "Available"), "MinimumReplicasAvailable");
    assert_eq!(
        done["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "1"
    );
    assert_eq!(done["status"]["readyReplicas"], 3);
    assert!(done["status"]["unavailableReplicas"].is_null());
    for pod in bed.pods().await {
        let pod = serde_json::to_value(pod).unwrap();
        assert_eq!(
            (&pod["status"]["phase"], &pod["spec"]["nodeName"]),
            (&json!("Running"), &json!("node-1"))
        );
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert!(pod["metadata"]["labels"]["pod-template-hash"].is_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_template_replaces_the_pods_within_the_limits() {
    let bed = Bed::new();
    bed.create::<Deployment>(deployment("web", 4, "web:1")).await;
    bed.deployment_done("web").await;
    bed.patch::<Deployment>("web", set_image("web:2")).await;
    let done = bed.deployment_done("web").await;
    assert_eq!(
        done["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "2"
    );
    let running = |pods: &[Value]| pods.len() == 4 && pods.iter().all(|pod| image(pod) == "web:2");
    bed.until_all::<Pod>(running).await;
    let (mut most, mut fewest) = (0, 4);
    for event in bed.api.recorder().events() {
        if event.resource.resource == "deployments" && event.kind() == ChangeKind::Modified {
            let status = &event.object()["status"];
            let number = |field: &str| status[field].as_i64().unwrap_or_default();
            most = most.max(number("replicas"));
            if event.object()["metadata"]["generation"] == 2 && status["observedGeneration"] == 2 {
                fewest = fewest.min(number("availableReplicas"));
            }
        }
    }
    assert_eq!((most, fewest), (5, 3), "25% of 4 is one");
    let sets: Vec<i32> = bed
        .replica_sets()
        .await
        .into_iter()
        .map(|set| set.spec.unwrap().replicas.unwrap())
        .collect();
    assert_eq!(
        (sets.len(), sets.iter().sum::<i32>()),
        (2, 4),
        "the old ReplicaSet stays as history"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_stops_at_the_deadline_and_a_fix_rolls_on() {
    let bed = Bed::new();
    let mut object = deployment("web", 2, "web:1");
    object["spec"]["progressDeadlineSeconds"] = 10.into();
    bed.create::<Deployment>(object).await;
    bed.deployment_done("web").await;
    bed.patch::<Deployment>("web", set_image("web:bad")).await;
    let begun = bed.elapsed();
    let waiting = |pods: &[Value], reason: &str| {
        pods.iter()
            .any(|p| p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason)
    };
    bed.until_all::<Pod>(|pods| waiting(pods, "ErrImagePull")).await;
    bed.until_all::<Pod>(|pods| waiting(pods, "ImagePullBackOff"))
        .await;
    let stalled = bed
        .until::<Deployment>("web", |d| reason(d, "Progressing") == "ProgressDeadlineExceeded")
        .await;
    let took = bed.elapsed().saturating_sub(begun);
    assert!((9..12).contains(&took.as_secs()), "{took:?}");
    assert_eq!(condition(&stalled, "Progressing")["status"], "False");
    assert_eq!(
        (
            &stalled["status"]["availableReplicas"],
            &stalled["status"]["updatedReplicas"]
        ),
        (&json!(2), &json!(1))
    );
    bed.patch::<Deployment>("web", set_image("web:2")).await;
    bed.deployment_done("web").await;
    bed.until_all::<Pod>(|pods| pods.len() == 2 && pods.iter().all(|pod| image(pod) == "web:2"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_annotation_shortens_the_deadline_and_another_breaks_the_pods() {
    let bed = Bed::new();
    let mut object = deployment("web", 1, "web:1");
    object["metadata"]["annotations"] = json!({
        "player.muster-apiserver.dev/progress-deadline": "3s", "player.muster-apiserver.dev/fail": "crash",
    });
    bed.create::<Deployment>(object).await;
    bed.until::<Deployment>("web", |d| reason(d, "Progressing") == "ProgressDeadlineExceeded")
        .await;
    assert!(bed.elapsed() < Duration::from_secs(5));
    let crashed = |pods: &[Value]| {
        pods[0]["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    bed.until_all::<Pod>(crashed).await;
    let fix = json!({"metadata": {"annotations": {"player.muster-apiserver.dev/fail": null}}});
    bed.patch::<Deployment>("web", fix).await;
    bed.deployment_done("web").await;
}

#[tokio::test(start_paused = true)]
async fn the_template_of_before_comes_back_with_a_new_revision() {
    let bed = Bed::new();
    bed.create::<Deployment>(deployment("web", 1, "web:1")).await;
    bed.deployment_done("web").await;
    for (image, revision) in [("web:2", "2"), ("web:1", "3")] {
        bed.patch::<Deployment>("web", set_image(image)).await;
        let done = bed.until::<Deployment>("web", |d| {
            is_done(d) && d["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
        });
        done.await;
    }
    assert_eq!(bed.replica_sets().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_as_long_as_wanted() {
    let bed = Bed::new();
    let mut object = deployment("web", 1, "web:0");
    object["spec"]["revisionHistoryLimit"] = 1.into();
    bed.create::<Deployment>(object).await;
    for version in 1..5 {
        bed.deployment_done("web").await;
        bed.patch::<Deployment>("web", set_image(&format!("web:{version}")))
            .await;
    }
    bed.deployment_done("web").await;
    let sets = bed.until_all::<ReplicaSet>(|sets| sets.len() == 2).await;
    let mut images: Vec<&str> = sets.iter().map(image).collect();
    images.sort_unstable();
    assert_eq!(images, ["web:3", "web:4"]);
}

#[tokio::test(start_paused = true)]
async fn scales_while_it_is_paused_and_rolls_when_it_goes_on() {
    let bed = Bed::new();
    bed.create::<Deployment>(deployment("web", 1, "web:1")).await;
    bed.deployment_done("web").await;
    bed.patch::<Deployment>("web", json!({"spec": {"paused": true, "replicas": 3}}))
        .await;
    bed.patch::<Deployment>("web", set_image("web:2")).await;
    let paused = bed
        .until::<Deployment>("web", |d| d["status"]["availableReplicas"] == 3)
        .await;
    assert_eq!(reason(&paused, "Progressing"), "DeploymentPaused");
    let images: Vec<String> = bed
        .pods()
        .await
        .iter()
        .map(|p| image(&serde_json::to_value(p).unwrap()).to_owned())
        .collect();
    assert_eq!(images, ["web:1"; 3]);
    bed.patch::<Deployment>("web", json!({"spec": {"paused": null}}))
        .await;
    bed.deployment_done("web").await;
    bed.patch::<Deployment>("web", json!({"spec": {"replicas": 0}}))
        .await;
    bed.until_all::<Pod>(<[Value]>::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn recreate_stops_the_old_pods_before_it_starts_new_ones() {
    let bed = Bed::new();
    let mut object = deployment("web", 2, "web:1");
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    bed.create::<Deployment>(object).await;
    bed.deployment_done("web").await;
    bed.patch::<Deployment>("web", set_image("web:2")).await;
    bed.deployment_done("web").await;
    let events = bed.api.recorder().events();
    let pods = || events.iter().filter(|event| event.resource.resource == "pods");
    let last_old = pods()
        .filter(|e| e.kind() == ChangeKind::Deleted && image(e.object()) == "web:1")
        .map(EventRecord::revision);
    let first_new = pods()
        .filter(|e| image(e.object()) == "web:2")
        .map(EventRecord::revision);
    assert!(last_old.max().unwrap() < first_new.min().unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_comes_back_and_goes_with_its_owner() {
    let bed = Bed::new();
    bed.create::<Deployment>(deployment("web", 2, "web:1")).await;
    bed.deployment_done("web").await;
    let victim = bed.names::<Pod>().await.remove(0);
    bed.delete::<Pod>(&victim).await;
    bed.until_all::<Pod>(|pods| {
        pods.len() == 2 && pods.iter().all(|pod| pod["metadata"]["name"] != victim.as_str())
    })
    .await;
    let set = bed.names::<ReplicaSet>().await.remove(0);
    let uid = bed.replica_sets().await.remove(0).metadata.uid;
    bed.delete::<ReplicaSet>(&set).await;
    bed.until::<ReplicaSet>(&set, |set| {
        !set.is_null() && set["metadata"]["uid"].as_str() != uid.as_deref()
    })
    .await;
    bed.deployment_done("web").await;
    bed.delete::<Deployment>("web").await;
    bed.until_all::<ReplicaSet>(<[Value]>::is_empty).await;
    bed.until_all::<Pod>(<[Value]>::is_empty).await;
}
