//! Promise: while a RolloutWindow is closed, no change begins in the clusters that it selects; changes in flight
//! finish, and nothing has failed when it opens.

use std::time::Duration;

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use serde_json::{Value, json};

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{Quality, ROLLED, condition, status_text, workload},
};

/// The time until the minute after next, plus a rollout.
const FROZEN: Duration = Duration::from_mins(4);
/// Enough time for another cluster to be touched, where waiting is free.
const WATCHED: Duration = Duration::from_mins(10);

/// A freeze that begins during a rollout does not abort it: it continues at the end of the freeze.
pub async fn freeze_in_mid_run(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("eu-1", "web", &version).await;
    let now = bed.now().to_zoned(TimeZone::UTC);
    let end = now.checked_add(2.minutes()).unwrap();
    let end = end.with().second(0).subsec_nanosecond(0).build().unwrap();
    let (from, to) = (
        now.strftime("%H:%M").to_string(),
        end.strftime("%H:%M").to_string(),
    );
    let entry = json!({"from": from, "to": to, "timeZone": "UTC"});
    close(&bed, "freeze", json!({"deny": [entry]})).await;
    let message = until_closed(&bed, "web", "eu-2,us-1").await;
    let until = end.strftime("%Y-%m-%dT%H:%M");
    assert_eq!(message, format!("until {until} UTC (freeze)"));
    until_group(&bed, "web", "UpToDate", "eu-1").await;
    assert_eq!(bed.order(&workload("web"), &version), ["eu-1"]);
    bed.until_ready_within(kinds::MODULE, "web", &version, FROZEN)
        .await;
    assert!(
        bed.now() >= end.timestamp(),
        "it began before the freeze was over"
    );
    assert_eq!(bed.order(&workload("web"), &version), CLUSTERS);
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
    never_failed(&bed).await;
}

/// A window that denies everything stops all rollouts until it is deleted.
pub async fn stop_the_line(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("eu-1", "web", &version).await;
    close(&bed, "stop", json!({"deny": [{}], "message": "INC-7"})).await;
    let other = bed.roll("other", 2, Quality::Good).await;
    assert_eq!(
        until_closed(&bed, "web", "eu-2,us-1").await,
        "with no opening in sight (stop): INC-7"
    );
    until_closed(&bed, "other", "eu-{1..2},us-1").await;
    until_group(&bed, "web", "UpToDate", "eu-1").await;
    if bed.is_virtual() {
        bed.pass(WATCHED).await;
    }
    assert_eq!(bed.order(&workload("web"), &version), ["eu-1"]);
    assert_eq!(bed.order(&workload("other"), &other), [""; 0]);
    bed.fleet().delete(kinds::ROLLOUT_WINDOW, "stop").await;
    bed.until_ready("web", &version).await;
    bed.until_ready("other", &other).await;
    never_failed(&bed).await;
}

/// A bypass lets one module through, and no other; it is recorded in the window.
pub async fn bypass(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    close(&bed, "stop", json!({"deny": [{}]})).await;
    let (version, other) = (
        bed.roll("web", 2, Quality::Good).await,
        bed.roll("other", 2, Quality::Good).await,
    );
    for app in ["web", "other"] {
        until_closed(&bed, app, "eu-{1..2},us-1").await;
    }
    bed.bypass("stop", "web", "CVE-2026-1234").await;
    bed.until_ready("web", &version).await;
    let window = bed.fleet().get(kinds::ROLLOUT_WINDOW, "stop").await.unwrap();
    let record = &window["spec"]["bypasses"][0];
    assert_eq!(record["module"], json!({"kind": "Module", "name": "web"}));
    assert_eq!(record["reason"], "CVE-2026-1234");
    until_closed(&bed, "other", "eu-{1..2},us-1").await;
    assert_eq!(bed.order(&workload("other"), &other), [""; 0]);
}

/// In the night in which Berlin's clocks jump from 02:00 to 03:00, a window of two hours is open for one, and one
/// between 02:15 and 02:45 does not open; its status shows this in advance.
pub async fn dst_night(ground: Ground) {
    let mut bed = Bed::starting_at(ground, "2026-03-28T23:00:00Z").await;
    for (cluster, night) in [("eu-1", "lost"), ("eu-2", "short")] {
        bed.join(cluster, &[("env", "prod"), ("night", night)], &[]).await;
    }
    bed.deploy(&["web"]).await;
    for (night, from, to) in [("lost", "02:15", "02:45"), ("short", "01:30", "03:30")] {
        let entry = json!({"from": from, "to": to, "timeZone": "Europe/Berlin"});
        let selector = json!({"matchLabels": {"night": night}});
        close(&bed, night, json!({"selector": selector, "allow": [entry]})).await;
    }
    let lost = bed.fleet().get(kinds::ROLLOUT_WINDOW, "lost").await.unwrap();
    let text = condition(&lost, "Ready").unwrap()["message"].as_str().unwrap();
    assert!(
        text.contains("does not apply on 2026-03-29: the clock of Europe/Berlin jumps over 02:15 to 02:45"),
        "{text}"
    );
    let two = bed.roll("web", 2, Quality::Good).await;
    wanted_at(&bed, "eu-2", &two, "2026-03-29T00:30:00Z").await;
    // 03:30 in summer time is an hour later, not two.
    pass_until(&bed, "2026-03-29T01:30:00Z").await;
    bed.pass(Duration::from_secs(2)).await;
    let three = bed.roll("web", 3, Quality::Good).await;
    let message = until_group(&bed, "web", "WindowClosed", "eu-{1..2}").await;
    assert_eq!(message, "", "each of them has its own");
    let attention = bed.module("web").await["status"]["attention"].clone();
    let messages = [&attention[0], &attention[1]].map(|cluster| cluster["message"].as_str().unwrap());
    assert_eq!(
        messages,
        [
            "until 2026-03-30T02:15 Europe/Berlin (lost)",
            "until 2026-03-30T01:30 Europe/Berlin (short)"
        ]
    );
    bed.pass(WATCHED).await;
    assert_eq!(bed.order(&workload("web"), &two), ["eu-2"]);
    assert_eq!(bed.order(&workload("web"), &three), [""; 0]);
    for night in ["lost", "short"] {
        bed.fleet().delete(kinds::ROLLOUT_WINDOW, night).await;
    }
    bed.until_ready("web", &three).await;
    never_failed(&bed).await;
}

/// A cluster gets a version at this instant, and not earlier.
async fn wanted_at(bed: &Bed, cluster: &str, version: &str, instant: &str) {
    pass_until(bed, instant).await;
    let begun = bed.order(&workload("web"), version);
    assert!(
        !begun.contains(&cluster.to_owned()),
        "{cluster} began before {instant}"
    );
    bed.until_wanted(cluster, "web", version).await;
}

/// Lets time pass until one second before an instant.
async fn pass_until(bed: &Bed, instant: &str) {
    let instant: Timestamp = instant.parse().unwrap();
    let left = instant.duration_since(bed.now()) - jiff::SignedDuration::from_secs(1);
    bed.pass(Duration::try_from(left).unwrap()).await;
}

/// Creates a window, for all clusters by default; waits until its status is set.
async fn close(bed: &Bed, name: &str, spec: Value) {
    let mut all = spec;
    all["selector"] = all.get("selector").cloned().unwrap_or_else(|| json!({}));
    bed.fleet()
        .create(
            kinds::ROLLOUT_WINDOW,
            json!({"metadata": {"name": name}, "spec": all}),
        )
        .await;
    let poll = async || {
        let window = bed.fleet().get(kinds::ROLLOUT_WINDOW, name).await.unwrap();
        let ready = condition(&window, "Ready").ok_or("no status")?;
        assert_eq!(ready["status"], "True", "{ready}");
        Ok(())
    };
    bed.wait_until("the window has a status", ROLLED, poll).await;
}

async fn until_closed(bed: &Bed, app: &str, clusters: &str) -> String {
    until_group(bed, app, "WindowClosed", clusters).await
}

/// Waits until exactly these clusters have the reason. Returns their messages.
async fn until_group(bed: &Bed, app: &str, reason: &str, clusters: &str) -> String {
    let poll = async || {
        let module = bed.module(app).await;
        let groups = module["status"]["reasons"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let group = groups.into_iter().find(|group| group["reason"] == reason);
        let group = group.filter(|group| group["clusters"] == clusters);
        group.ok_or_else(|| status_text(&module))
    };
    let (_, group) = bed
        .wait_until(&format!("{clusters}: {reason}"), ROLLED, poll)
        .await;
    group["message"].as_str().unwrap_or_default().to_owned()
}

/// No cluster has ever failed, and no revision was marked as bad.
async fn never_failed(bed: &Bed) {
    let events = bed.fleet().list(kinds::EVENT).await;
    let reasons = events
        .iter()
        .map(|event| event["reason"].as_str().unwrap_or_default());
    let failed: Vec<&str> = reasons
        .filter(|reason| matches!(*reason, "ClusterFailed" | "RevisionCondemned" | "RolloutHalted"))
        .collect();
    assert_eq!(failed, [""; 0]);
}
