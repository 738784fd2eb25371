//! StatefulSets: order, revisions, claims.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use muster_apiserver::ChangeKind;
use serde_json::{Value, json};

use crate::bed::{Bed, image, set_image, template};

fn stateful_set(replicas: i32, extra: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "db"}, "spec": {
        "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": template("db", "db:1"),
    }});
    for (field, value) in extra.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

fn is_done(set: &Value) -> bool {
    let status = &set["status"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && ["replicas", "availableReplicas", "updatedReplicas"]
            .iter()
            .all(|count| status[*count] == set["spec"]["replicas"])
        && status["currentRevision"] == status["updateRevision"]
}

/// Creations and deletions of pods, in order: `+db-0 db:1`, `-db-0`.
fn story(bed: &Bed) -> Vec<String> {
    let events = bed.api.recorder().events();
    let pods = events.iter().filter(|event| event.resource.resource == "pods");
    pods.filter_map(|event| {
        let name = event.object()["metadata"]["name"].as_str().unwrap();
        match event.kind() {
            ChangeKind::Added => Some(format!("+{name} {}", image(event.object()))),
            ChangeKind::Deleted => Some(format!("-{name}")),
            ChangeKind::Modified => None,
        }
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn pods_come_one_after_the_other_and_go_from_the_last() {
    let bed = Bed::new();
    bed.create::<StatefulSet>(stateful_set(3, &json!({}))).await;
    bed.until::<StatefulSet>("db", is_done).await;
    assert!(
        bed.elapsed() >= Duration::from_secs(3),
        "each waits for the one before"
    );
    bed.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}}))
        .await;
    bed.until_all::<Pod>(|pods| pods.len() == 1).await;
    assert_eq!(
        story(&bed),
        ["+db-0 db:1", "+db-1 db:1", "+db-2 db:1", "-db-2", "-db-1"]
    );
    let pod = serde_json::to_value(bed.pods().await.remove(0)).unwrap();
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("db-0"), &json!("db"))
    );
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "0");
}

#[tokio::test(start_paused = true)]
async fn parallel_pods_come_at_once() {
    let bed = Bed::new();
    bed.create::<StatefulSet>(stateful_set(3, &json!({"podManagementPolicy": "Parallel"})))
        .await;
    bed.until::<StatefulSet>("db", is_done).await;
    assert!(bed.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_goes_from_the_last_to_the_partition() {
    let bed = Bed::new();
    bed.create::<StatefulSet>(stateful_set(3, &json!({}))).await;
    let first = bed.until::<StatefulSet>("db", is_done).await;
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    let mut patch = set_image("db:2");
    patch["spec"]["updateStrategy"] = partition;
    bed.patch::<StatefulSet>("db", patch).await;
    let held = bed.until::<StatefulSet>("db", |set| {
        set["status"]["updatedReplicas"] == 2 && set["status"]["readyReplicas"] == 3
    });
    let held = held.await;
    assert_eq!(
        held["status"]["currentRevision"],
        first["status"]["currentRevision"]
    );
    assert_eq!(held["status"]["currentReplicas"], 1);
    assert_eq!(story(&bed)[3..], ["-db-2", "+db-2 db:2", "-db-1", "+db-1 db:2"]);
    bed.delete::<Pod>("db-0").await;
    bed.until::<Pod>("db-0", |pod| {
        pod["metadata"]["deletionTimestamp"].is_null() && !pod.is_null()
    })
    .await;
    assert_eq!(
        story(&bed).last().unwrap(),
        "+db-0 db:1",
        "below the partition the current revision comes back"
    );
    bed.patch::<StatefulSet>(
        "db",
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
    )
    .await;
    bed.until::<StatefulSet>("db", is_done).await;
    assert_eq!(story(&bed).last().unwrap(), "+db-0 db:2");
    let mut revisions: Vec<i64> = bed
        .all::<ControllerRevision>()
        .await
        .iter()
        .map(|r| r.revision)
        .collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [1, 2]);
    bed.patch::<StatefulSet>("db", set_image("db:1")).await;
    bed.until::<StatefulSet>("db", |set| {
        is_done(set) && set["status"]["currentRevision"] == first["status"]["currentRevision"]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn on_delete_waits_for_a_manual_pod_deletion() {
    let bed = Bed::new();
    bed.create::<StatefulSet>(stateful_set(2, &json!({"updateStrategy": {"type": "OnDelete"}})))
        .await;
    bed.until::<StatefulSet>("db", |set| set["status"]["readyReplicas"] == 2)
        .await;
    bed.patch::<StatefulSet>("db", set_image("db:2")).await;
    bed.pass(Duration::from_secs(30)).await;
    assert_eq!(story(&bed), ["+db-0 db:1", "+db-1 db:1"]);
    bed.delete::<Pod>("db-0").await;
    bed.until::<StatefulSet>("db", |set| {
        set["status"]["updatedReplicas"] == 1 && set["status"]["readyReplicas"] == 2
    })
    .await;
    assert_eq!(story(&bed)[2..], ["-db-0", "+db-0 db:2"]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_holds_up_the_others() {
    let bed = Bed::new();
    bed.create::<StatefulSet>(stateful_set(2, &json!({}))).await;
    bed.until::<StatefulSet>("db", is_done).await;
    bed.patch::<StatefulSet>("db", set_image("db:bad")).await;
    bed.pass(Duration::from_mins(1)).await;
    assert_eq!(story(&bed)[2..], ["-db-1", "+db-1 db:bad"]);
}

#[tokio::test(start_paused = true)]
async fn each_pod_has_its_claims_and_they_stay() {
    let bed = Bed::new();
    let claims = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }}]);
    bed.create::<StatefulSet>(stateful_set(2, &json!({"volumeClaimTemplates": claims})))
        .await;
    bed.until::<StatefulSet>("db", is_done).await;
    assert_eq!(
        bed.names::<PersistentVolumeClaim>().await,
        ["data-db-0", "data-db-1"]
    );
    bed.until::<PersistentVolumeClaim>("data-db-1", |claim| claim["status"]["phase"] == "Bound")
        .await;
    let pod = bed.until::<Pod>("db-1", |_| true).await;
    assert_eq!(
        pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "data-db-1"
    );
    bed.delete::<StatefulSet>("db").await;
    bed.until_all::<Pod>(<[Value]>::is_empty).await;
    bed.until_all::<ControllerRevision>(<[Value]>::is_empty).await;
    assert_eq!(bed.names::<PersistentVolumeClaim>().await.len(), 2);
}
