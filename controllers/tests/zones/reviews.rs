//! Reviews: a permission is recorded before it is given, and nothing is allowed by a process that may not be the
//! leader.

use http::{Method, StatusCode};
use muster_controllers::{
    admission::server::{Answers, WebhookRequest},
    lease::Leadership,
    zones::reviews::path,
};
use muster_zones::scale::pods::Answer;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::support::{BUDGETS, Bed, NS, PODS, SETS, ZONES, pass, rollout, set};

pub(crate) async fn send_review(answers: &Answers, path: &str, request: Value) -> Value {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let answer = answers(WebhookRequest {
        method: Method::POST,
        path: path.to_owned(),
        content_type: "application/json".to_owned(),
        body: review.to_string().into(),
    })
    .await;
    assert_eq!(answer.status, StatusCode::OK);
    serde_json::from_slice::<Value>(&answer.body).unwrap()["response"].clone()
}

pub(crate) fn eviction(pod: &str, dry_run: bool) -> Value {
    json!({
        "uid": format!("evict-{pod}"), "operation": "CREATE", "resource": {"version": "v1", "resource": "pods"}, "subResource": "eviction",
        "namespace": NS, "name": pod, "dryRun": dry_run,
    })
}

pub(crate) fn budget() -> Value {
    json!({
        "apiVersion": "rollout-operator.grafana.com/v1", "kind": "ZoneAwarePodDisruptionBudget", "metadata": {"name": "db"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    })
}

/// A bed with a budget, and the review handler of its leader.
async fn led(labelled: bool) -> (Bed, Answers) {
    let mut bed = Bed::empty(&[]).await;
    bed.create(BUDGETS, budget()).await;
    for zone in ZONES {
        let metadata = if labelled {
            json!({
                "labels": {"grafana.com/prepare-downscale": "true"},
                "annotations": {"grafana.com/prepare-downscale-http-path": "prepare", "grafana.com/prepare-downscale-http-port": "80"},
            })
        } else {
            json!({})
        };
        bed.create(SETS, set(zone, &metadata)).await;
    }
    bed.all_ready("v1").await;
    let answers = bed.serve(None).await;
    (bed, answers)
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_on_record_before_it_is_allowed_and_another_zone_is_denied_until_the_pod_is_back() {
    let (bed, answers) = led(false).await;
    let dry = send_review(&answers, path::POD_EVICTION, eviction("db-zone-a-1", true)).await;
    assert_eq!(dry["allowed"], true, "{dry}");
    assert!(in_flight(&bed).await.is_empty(), "a dry run enters nothing");
    let allowed = send_review(&answers, path::POD_EVICTION, eviction("db-zone-a-1", false)).await;
    assert_eq!(allowed["allowed"], true, "{allowed}");
    assert_eq!(in_flight(&bed).await, ["db-zone-a-1 Eviction"]);
    for pod in ["db-zone-b-0", "db-zone-a-0"] {
        let denied = send_review(&answers, path::POD_EVICTION, eviction(pod, false)).await;
        assert_eq!(
            (&denied["allowed"], &denied["status"]["code"]),
            (&json!(false), &json!(429)),
            "{pod}: {denied}"
        );
    }
    bed.delete(&format!("{PODS}/db-zone-a-1")).await;
    bed.all_ready("v1").await;
    let allowed = send_review(&answers, path::POD_EVICTION, eviction("db-zone-b-0", false)).await;
    assert_eq!(allowed["allowed"], true, "{allowed}");
}

async fn in_flight(bed: &Bed) -> Vec<String> {
    let rollout = bed.read(&rollout()).await.unwrap_or_default();
    let entries = rollout["status"]["inFlight"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let entry = |entry: &Value| {
        format!(
            "{} {}",
            entry["pod"].as_str().unwrap(),
            entry["why"].as_str().unwrap()
        )
    };
    entries.iter().map(entry).collect()
}

#[tokio::test(start_paused = true)]
async fn evictions_at_the_same_time_are_allowed_in_one_zone_alone() {
    let (bed, answers) = led(false).await;
    let pods = [
        "db-zone-a-0",
        "db-zone-b-0",
        "db-zone-c-0",
        "db-zone-a-1",
        "db-zone-b-1",
    ];
    let reviews = pods.map(|pod| send_review(&answers, path::POD_EVICTION, eviction(pod, false)));
    let verdicts = futures::future::join_all(reviews).await;
    let allowed = verdicts
        .iter()
        .filter(|verdict| verdict["allowed"] == true)
        .count();
    assert_eq!(allowed, 1, "{verdicts:?}");
    assert_eq!(in_flight(&bed).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_allowed_that_writes_and_the_other_webhooks_answer() {
    let (mut bed, _) = led(true).await;
    let ended = Leadership::until(Instant::now() + Duration::from_secs(5));
    let answers = bed.serve(Some(ended)).await;
    pass(Duration::from_secs(5)).await;
    let denied = send_review(&answers, path::POD_EVICTION, eviction("db-zone-a-0", false)).await;
    assert_eq!(
        (&denied["allowed"], &denied["status"]["code"]),
        (&json!(false), &json!(429))
    );
    let denied = send_review(
        &answers,
        path::PREPARE_DOWNSCALE,
        downscale(&bed, ZONES[0], 2).await,
    )
    .await;
    assert_eq!(denied["allowed"], false, "{denied}");
    let validated = json!({"uid": "1", "operation": "CREATE", "object": budget()});
    assert_eq!(
        send_review(&answers, path::ZPDB_VALIDATION, validated).await["allowed"],
        true
    );
    let mut wrong = budget();
    wrong["spec"]["maxUnavailable"] = json!(-1);
    let refused = json!({"uid": "1", "operation": "CREATE", "object": wrong});
    let refused = send_review(&answers, path::ZPDB_VALIDATION, refused).await;
    assert_eq!(
        (&refused["allowed"], &refused["status"]["code"]),
        (&json!(false), &json!(400))
    );
    let allowed = send_review(&answers, path::NO_DOWNSCALE, downscale(&bed, ZONES[0], 2).await).await;
    assert_eq!(
        allowed["allowed"], true,
        "it has no label that forbids it: {allowed}"
    );
    assert!(bed.pods.requests.lock().is_empty());
}

pub(crate) async fn downscale(bed: &Bed, zone: &str, to: u32) -> Value {
    let mut old = bed.read(&format!("{SETS}/{zone}")).await.unwrap();
    (old["apiVersion"], old["kind"]) = (json!("apps/v1"), json!("StatefulSet"));
    let mut new = old.clone();
    new["spec"]["replicas"] = json!(to);
    json!({
        "uid": format!("down-{zone}"), "operation": "UPDATE",
        "resource": {"group": "apps", "version": "v1", "resource": "statefulsets"},
        "namespace": NS, "name": zone, "object": new, "oldObject": old,
    })
}

#[tokio::test(start_paused = true)]
async fn a_downscale_is_allowed_when_its_pods_are_prepared_and_waits_for_the_one_before() {
    let (bed, answers) = led(true).await;
    let request = downscale(&bed, ZONES[0], 2).await;
    let allowed = send_review(&answers, path::PREPARE_DOWNSCALE, request).await;
    assert_eq!(allowed["allowed"], true, "{allowed}");
    assert_eq!(bed.pods.requests.lock().clone(), ["POST db-zone-a-2"]);
    let rollout = bed.read(&rollout()).await.unwrap();
    let operation = &rollout["status"]["operation"];
    assert_eq!(
        (&operation["kind"], &operation["set"]),
        (&json!("Downscaling"), &json!(ZONES[0]))
    );
    let denied = send_review(
        &answers,
        path::PREPARE_DOWNSCALE,
        downscale(&bed, ZONES[1], 2).await,
    )
    .await;
    assert_eq!(denied["allowed"], false, "{denied}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_refuses_to_prepare_stays_and_the_others_forget() {
    let (bed, answers) = led(true).await;
    let refusal = Answer {
        status: 500,
        body: String::new(),
    };
    bed.pods
        .answers
        .lock()
        .insert("db-zone-a-1".to_owned(), Ok(refusal));
    let denied = send_review(
        &answers,
        path::PREPARE_DOWNSCALE,
        downscale(&bed, ZONES[0], 1).await,
    )
    .await;
    assert_eq!(denied["allowed"], false, "{denied}");
    let requests = bed.pods.requests.lock().clone();
    let expect = [
        "POST db-zone-a-2",
        "POST db-zone-a-1",
        "DELETE db-zone-a-2",
        "DELETE db-zone-a-1",
    ];
    assert_eq!(requests, expect);
    let rollout = bed.read(&rollout()).await.unwrap();
    assert!(rollout["status"]["operation"].is_null(), "{rollout}");
}
