//! Jobs: complete, failed, suspended, in parallel, indexed, deleted after their TTL.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::bed::{Bed, condition, reason, template};

fn job(extra: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "load"}, "spec": {"template": template("load", "load:1")}});
    object["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    for (field, value) in extra.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

fn is_true(job: &Value, kind: &str) -> bool {
    condition(job, kind)["status"] == "True"
}

#[tokio::test(start_paused = true)]
async fn completes_when_its_pod_has_ended() {
    let bed = Bed::new();
    bed.create::<Job>(job(&json!({}))).await;
    let running = bed.until::<Job>("load", |job| job["status"]["ready"] == 1).await;
    assert_eq!(running["status"]["active"], 1);
    let done = bed.until::<Job>("load", |job| is_true(job, "Complete")).await;
    assert!(bed.elapsed() >= Duration::from_secs(2));
    assert_eq!(
        (&done["status"]["succeeded"], &done["status"]["ready"]),
        (&json!(1), &json!(0))
    );
    assert!(done["status"]["completionTime"].is_string() && done["status"]["active"].is_null());
    bed.delete::<Job>("load").await;
    bed.until_all::<Pod>(<[Value]>::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn fails_when_too_many_pods_have_failed() {
    let bed = Bed::new();
    let mut object = job(&json!({"backoffLimit": 2}));
    object["metadata"]["annotations"] = json!({"player.muster-apiserver.dev/fail": "crash"});
    bed.create::<Job>(object).await;
    let failed = bed.until::<Job>("load", |job| is_true(job, "Failed")).await;
    assert_eq!(
        (reason(&failed, "Failed"), &failed["status"]["failed"]),
        ("BackoffLimitExceeded", &json!(3))
    );
    assert_eq!(bed.pods().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_fails_at_the_deadline_only() {
    let bed = Bed::new();
    let mut object = job(&json!({"activeDeadlineSeconds": 20}));
    object["spec"]["template"]["spec"]["containers"][0]["image"] = "load:bad".into();
    bed.create::<Job>(object).await;
    let failed = bed.until::<Job>("load", |job| is_true(job, "Failed")).await;
    assert_eq!(reason(&failed, "Failed"), "DeadlineExceeded");
    assert!(bed.elapsed() >= Duration::from_secs(19));
    bed.until_all::<Pod>(<[Value]>::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn runs_as_many_as_it_may_and_each_index_once() {
    let bed = Bed::new();
    bed.create::<Job>(job(
        &json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed"}),
    ))
    .await;
    let done = bed.until::<Job>("load", |job| is_true(job, "Complete")).await;
    assert_eq!(
        (&done["status"]["completedIndexes"], &done["status"]["succeeded"]),
        (&json!("0-4"), &json!(5))
    );
    let took = bed.elapsed();
    assert!(
        took >= Duration::from_secs(6) && took < Duration::from_secs(8),
        "three rounds: {took:?}"
    );
    let events = bed.api.recorder().events();
    let jobs = events.iter().filter(|event| event.resource.resource == "jobs");
    let most = jobs
        .filter_map(|event| event.object()["status"]["active"].as_i64())
        .max();
    assert_eq!(most, Some(2));
}

#[tokio::test(start_paused = true)]
async fn does_nothing_while_it_is_suspended_and_goes_when_its_time_has_come() {
    let bed = Bed::new();
    bed.create::<Job>(job(&json!({"suspend": true, "ttlSecondsAfterFinished": 30})))
        .await;
    bed.until::<Job>("load", |job| is_true(job, "Suspended")).await;
    bed.pass(Duration::from_secs(10)).await;
    assert!(bed.pods().await.is_empty());
    bed.patch::<Job>("load", json!({"spec": {"suspend": false}}))
        .await;
    bed.until::<Job>("load", |job| is_true(job, "Complete")).await;
    bed.pass(Duration::from_secs(28)).await;
    assert_eq!(bed.names::<Job>().await, ["load"]);
    bed.until::<Job>("load", Value::is_null).await;
}
