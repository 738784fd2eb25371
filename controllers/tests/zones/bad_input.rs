//! Bad input: each label and annotation that is read, if invalid, is reported by its reader, rejected if it protects
//! data, and the rest of the group continues. The messages are in `snapshots/`.

use std::{collections::BTreeSet, fmt::Write as _};

use muster_controllers::zones::reviews::path;
use muster_zones::{
    model::annotations::{MAX_UNAVAILABLE, PAUSED},
    scale::{delay, follower, mirror, preparation, times},
};
use serde_json::{Value, json};
use tokio::time::Duration;

use crate::{
    reviews::{budget, downscale, eviction, send_review},
    support::{BUDGETS, Bed, SETS, TEMPLATES, ZONES, condition, pass, rollout, set},
};

/// Invalid values, by where they are written.
const GARBAGE: [(&str, &str, &str); 22] = [
    ("annotations", MAX_UNAVAILABLE, "many"),
    ("annotations", MAX_UNAVAILABLE, "-1"),
    ("annotations", MAX_UNAVAILABLE, "0"),
    ("annotations", MAX_UNAVAILABLE, "99999999999999999999"),
    ("annotations", PAUSED, "perhaps"),
    ("annotations", preparation::PATH, ""),
    ("annotations", preparation::PATH, "%zz"),
    ("annotations", preparation::PORT, "http"),
    ("annotations", preparation::PORT, "70000"),
    ("labels", times::MIN_TIME, "soon"),
    ("annotations", times::LAST_DOWNSCALE, "yesterday"),
    ("annotations", delay::DELAY, "later"),
    ("annotations", delay::DELAY, "-5m"),
    ("annotations", delay::URL, "http://pod:port/x"),
    ("annotations", follower::LEADER, "db-zone-b"),
    ("annotations", follower::LEADER, "db-zone-x"),
    ("annotations", follower::WHEN_READY, "perhaps"),
    ("annotations", follower::FORCE_REPLICAS, "perhaps"),
    ("annotations", mirror::NAME, "absent"),
    ("annotations", mirror::KIND, "Secret"),
    ("annotations", mirror::API_VERSION, "a/b/c"),
    ("annotations", mirror::WRITE_BACK, "perhaps"),
];

/// Metadata of a set whose downscales are prepared.
fn prepared() -> Value {
    json!({
        "labels": {preparation::PREPARE: "true", times::MIN_TIME: "1s"},
        "annotations": {preparation::PATH: "prepare", preparation::PORT: "80"},
    })
}

/// The same, for a set whose replicas mirror a reference, with one invalid value.
fn metadata(of: &str, key: &str, value: &str) -> Value {
    let mut metadata = prepared();
    let about_references = [
        mirror::NAME,
        mirror::KIND,
        mirror::API_VERSION,
        mirror::WRITE_BACK,
        delay::DELAY,
        delay::URL,
    ];
    if about_references.contains(&key) {
        let annotations = &mut metadata["annotations"];
        annotations[mirror::NAME] = json!("db");
        annotations[mirror::KIND] = json!("ReplicaTemplate");
        annotations[mirror::API_VERSION] = json!("rollout-operator.grafana.com/v1");
        annotations[delay::DELAY] = json!("10m");
        annotations[delay::URL] = json!("http://pod/prepare");
    }
    metadata[of][key] = json!(value);
    metadata
}

/// What the ZoneRollout and the review of a downscale report about an invalid set.
async fn reported_errors(of: &str, key: &str, value: &str) -> String {
    let mut bed = Bed::empty(&["-use-zone-tracker=true", "-write-last-downscale-annotation=true"]).await;
    let template = json!({
        "apiVersion": "rollout-operator.grafana.com/v1", "kind": "ReplicaTemplate", "metadata": {"name": "db"}, "spec": {"replicas": 3},
    });
    bed.until(TEMPLATES, |_| true).await;
    bed.create(TEMPLATES, template).await;
    for zone in ZONES {
        let metadata = if zone == ZONES[1] {
            metadata(of, key, value)
        } else {
            prepared()
        };
        bed.create(SETS, set(zone, &metadata)).await;
    }
    bed.all_ready("v1").await;
    let answers = bed.serve_as_it_is(None);
    pass(Duration::from_secs(30)).await;
    let rollout = bed.read(&rollout()).await.unwrap();
    let (status, reason, message) = condition(&rollout, "Ready");
    let mut report = format!("{key}={value}\n  Ready={status} {reason}: {message}\n");
    let reasons = rollout["status"]["reasons"].as_array().into_iter().flatten();
    for reason in reasons.filter(|reason| reason["set"] == ZONES[1]) {
        let text = |field: &str| reason[field].as_str().unwrap_or_default();
        let _ = writeln!(report, "  {}: {}", text("reason"), text("message"));
    }
    // Messages about the time of a zone affect other zones.
    let zone = if [times::MIN_TIME, times::LAST_DOWNSCALE].contains(&key) {
        ZONES[0]
    } else {
        ZONES[1]
    };
    let review = send_review(&answers, path::PREPARE_DOWNSCALE, downscale(&bed, zone, 2).await).await;
    let _ = writeln!(report, "  downscale of {zone} {}", verdict(&review));
    report
}

fn verdict(review: &Value) -> String {
    let verdict = if review["allowed"] == true {
        "allowed"
    } else {
        "denied"
    };
    let warnings = review["warnings"].as_array().into_iter().flatten();
    let message = review["status"]["message"].as_str().into_iter();
    let words: Vec<&str> = message.chain(warnings.filter_map(Value::as_str)).collect();
    format!("{verdict}: {}", words.join("; "))
}

#[tokio::test(start_paused = true)]
async fn each_label_and_annotation_is_named() {
    let mut all = String::new();
    for (of, key, value) in GARBAGE {
        all += &reported_errors(of, key, value).await;
    }
    insta::assert_snapshot!(all);
}

/// A budget that matches nothing protects nothing; one that cannot be evaluated protects everything that it matches.
#[tokio::test(start_paused = true)]
async fn budgets_that_cannot_be_meant() {
    let mut all = String::new();
    for (what, spec) in [
        (
            "no budget matches",
            json!({"selector": {"matchLabels": {"app": "other"}}}),
        ),
        (
            "a regular expression that names no pod",
            json!({"podNamePartitionRegex": "x(a)"}),
        ),
    ] {
        let mut bed = Bed::empty(&[]).await;
        let mut budget = budget();
        for (key, value) in spec.as_object().unwrap() {
            budget["spec"][key] = value.clone();
        }
        bed.create(BUDGETS, budget).await;
        for zone in ZONES {
            bed.create(SETS, set(zone, &json!({}))).await;
        }
        bed.all_ready("v1").await;
        let answers = bed.serve(None).await;
        let review = send_review(&answers, path::POD_EVICTION, eviction("db-zone-a-0", false)).await;
        let _ = writeln!(all, "{what}: {}", verdict(&review));
    }
    insta::assert_snapshot!(all);
}

/// Users may set any zone label: each set is a zone of its own, and two sets with the same label are never disrupted at
/// once.
#[tokio::test(start_paused = true)]
async fn two_sets_of_one_zone() {
    let mut bed = Bed::empty(&[]).await;
    for zone in ZONES {
        let label = json!({"topology.kubernetes.io/zone": "eu-1a", "name": "db"});
        let mut set = set(zone, &json!({"labels": label}));
        for (key, value) in label.as_object().unwrap() {
            set["spec"]["template"]["metadata"]["labels"][key] = value.clone();
        }
        bed.create(SETS, set).await;
    }
    bed.all_ready("v1").await;
    bed.begin().await;
    bed.image("v2").await;
    bed.all_ready("v2").await;
    bed.until_ready("True UpToDate").await;
    assert_eq!(bed.most_disturbed(), 1);
    let deleted: Vec<String> = bed.deleted().into_iter().map(|(pod, _)| pod).collect();
    let pods = ZONES
        .iter()
        .flat_map(|zone| (0..3).map(move |pod| format!("{zone}-{pod}")));
    assert_eq!(zones_of(&deleted), ZONES, "{deleted:?}");
    assert_eq!(
        deleted.iter().collect::<BTreeSet<_>>(),
        pods.collect::<Vec<_>>().iter().collect()
    );
}

/// The zones in the order in which their pods were deleted, with consecutive duplicates removed.
fn zones_of(pods: &[String]) -> Vec<&str> {
    let mut zones: Vec<&str> = pods
        .iter()
        .filter_map(|pod| Some(pod.rsplit_once('-')?.0))
        .collect();
    zones.dedup();
    zones
}
