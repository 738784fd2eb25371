//! Promise: the health of an object is what the kstatus library says of it; where it is not, the fixture says why.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod causes;
mod table;

use jiff::Timestamp;
use muster_sync::health::{self, State};
use serde_json::{Value, json};

/// Made by the library itself: `cargo xtask fixtures`.
const CASES: &str = include_str!("../fixtures/kstatus/kstatus.json");

/// Reasons of failures that may pass by themselves. Every other failure is final.
const PASSING: [&str; 2] = ["ContainerCrashLooping", "PodUnschedulable"];

#[test]
fn every_object_is_judged_as_kstatus_judges_it() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let mut deviations = 0;
    for case in &cases {
        let (name, object) = (&case["name"], &case["object"]);
        let health = health::of(object, now);
        let got = format!("{}: {}", health.state.as_str(), health.message);
        let text = |field: &str| case[field].as_str().unwrap_or_default();
        let theirs = format!("{}: {}", text("status"), text("message"));
        if case.get("deviation").is_some() {
            deviations += 1;
            assert_eq!(got, text("ours"), "{name}: {object:#}");
            assert_ne!(got, theirs, "{name} is no deviation any more");
            continue;
        }
        assert_eq!(got, theirs, "{name}: {object:#}");
        if !text("reason").is_empty() {
            assert_eq!(health.reason, text("reason"), "{name}");
        }
        let final_failure = health.state == State::Failed && !PASSING.contains(&health.reason.as_str());
        assert_eq!(health.terminal, final_failure, "{name}");
    }
    println!("{} objects, {deviations} of them deviations", cases.len());
    assert!(cases.len() >= 60 && deviations <= 12);
}

#[test]
fn what_is_no_object_is_no_trouble() {
    for odd in [
        json!(null),
        json!([]),
        json!("text"),
        json!({"status": 1}),
        json!({"metadata": []}),
    ] {
        let health = health::of(&odd, Timestamp::UNIX_EPOCH);
        assert_eq!(health.state, State::Current, "{odd}");
    }
}
