//! Promise: a RolloutWindow shows whether it can be parsed, whether it is open, when that changes, and which of its
//! times are skipped.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use muster_api::RolloutWindow;
use serde_json::{Value, json};

use crate::{bed::*, windows::close};

async fn window(bed: &Bed, name: &str) -> Value {
    let window = bed.api::<RolloutWindow>().get(name).await.unwrap();
    serde_json::to_value(window).unwrap()
}

/// The status of a window, in short.
async fn status(bed: &Bed, name: &str) -> (Option<String>, Value, Value, Value) {
    let object = window(bed, name).await;
    let status = &object["status"];
    assert_eq!(
        status["observedGeneration"], object["metadata"]["generation"],
        "{status}"
    );
    let ready = condition(&object, "Ready");
    (
        ready,
        status["open"].clone(),
        status["nextChange"].clone(),
        status["clusters"].clone(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_window_says_whether_it_is_open_and_when_that_changes() {
    let bed = Bed::new(&CLUSTERS).await;
    let readable = Some("True Succeeded: the window can be read".to_owned());
    let entry = json!({"from": "01:00", "to": "02:00", "timeZone": "UTC"});
    close(
        &bed,
        "night",
        json!({"selector": {"matchLabels": {"env": "prod"}}, "deny": [entry]}),
    )
    .await;
    close(
        &bed,
        "stop",
        json!({"selector": {"matchLabels": {"env": "test"}}, "deny": [{}]}),
    )
    .await;
    let next = |time: &str| json!(format!("1970-01-01T{time}:00Z"));
    assert_eq!(
        status(&bed, "night").await,
        (readable.clone(), json!(true), next("01:00"), json!(3))
    );
    assert_eq!(
        status(&bed, "stop").await,
        (readable.clone(), json!(false), Value::Null, json!(0))
    );
    let version = window(&bed, "night").await["metadata"]["resourceVersion"].clone();
    pass(Duration::from_mins(59)).await;
    assert_eq!(
        window(&bed, "night").await["metadata"]["resourceVersion"],
        version,
        "nothing changed"
    );
    pass(Duration::from_mins(1)).await;
    assert_eq!(
        status(&bed, "night").await,
        (readable.clone(), json!(false), next("02:00"), json!(3))
    );
    bed.patch_cluster("us-1", json!({"metadata": {"labels": {"env": "test"}}}))
        .await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(status(&bed, "night").await.3, 2);
    assert_eq!(
        status(&bed, "stop").await,
        (readable, json!(false), Value::Null, json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn a_window_says_what_is_wrong_with_it_and_where() {
    let bed = Bed::new(&CLUSTERS).await;
    let zone = json!({"metadata": {"annotations": {"example.org/zone": "Asia/Tokyo"}}});
    bed.patch_cluster("eu-1", zone).await;
    let local = json!({"from": "01:00", "to": "02:00", "timeZoneFrom": {"annotation": "example.org/zone"}});
    close(&bed, "local", json!({"allow": [local]})).await;
    close(
        &bed,
        "typo",
        json!({"deny": [{"days": ["Mon"], "timeZone": "Mars/Olympus"}]}),
    )
    .await;
    let endless = json!({"module": {"kind": "Module", "name": "web"}, "reason": "CVE", "until": "2026-01-01T00:00:00Z"});
    close(&bed, "stop", json!({"deny": [{}], "bypasses": [endless]})).await;
    let ready = async |name: &str| status(&bed, name).await.0.unwrap();
    assert_eq!(
        ready("local").await,
        "False WindowInvalid: eu-2,us-1: metadata.annotations[example.org/zone]: the Cluster has no annotation example.org/zone, which sets its time zone; until this is fixed, no change starts there"
    );
    assert_eq!(
        ready("typo").await,
        "False WindowInvalid: spec.deny[0].timeZone: time zone \"Mars/Olympus\" does not exist: use a name such as Europe/Berlin or UTC; until this is fixed, no change starts in the clusters that the window selects"
    );
    assert_eq!(status(&bed, "typo").await.1, false);
    assert_eq!(ready("stop").await, "True Succeeded: the window can be read");
    let patch = Patch::Merge(json!({"spec": {"deny": [{"days": ["Mon"], "timeZone": "UTC"}]}}));
    let windows = bed.api::<RolloutWindow>();
    windows
        .patch("typo", &PatchParams::default(), &patch)
        .await
        .unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(ready("typo").await, "True Succeeded: the window can be read");
}

#[tokio::test(start_paused = true)]
async fn a_time_that_a_clock_change_skips_is_said() {
    let bed = Bed::new(&CLUSTERS).await;
    // The clocks of New York went forward at 02:00 on 1970-04-26.
    let entry = json!({"from": "02:15", "to": "02:45", "timeZone": "America/New_York"});
    close(&bed, "night", json!({"allow": [entry]})).await;
    let ready = status(&bed, "night").await.0.unwrap();
    assert_eq!(
        ready,
        "True Succeeded: the window can be read; entry 0 does not apply on 1970-04-26: the clock of America/New_York jumps over 02:15 to 02:45"
    );
    assert!(bed.clock.now() < "1970-01-02T00:00:00Z".parse::<Timestamp>().unwrap());
}
