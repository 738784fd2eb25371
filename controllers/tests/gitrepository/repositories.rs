//! GitRepositories: what is fetched when, and what is reported.

use std::time::Duration;

use muster_sync::source::{self, SourceError};
use serde_json::{Value, json};

use crate::support::{Bed, NS, URL, condition, message, ready, repository};

#[tokio::test(start_paused = true)]
async fn a_pinned_commit_is_fetched_once() {
    let bed = Bed::new();
    let commit = bed.commit(&[("a.yaml", "a: x\n")]);
    bed.repository("src", json!({"ref": {"commit": commit}, "interval": "24h"}))
        .await;
    let object = bed
        .until(&repository("src"), |object| ready(object) == "True Succeeded")
        .await;
    assert_eq!(object["status"]["artifact"]["revision"], format!("sha1:{commit}"));
    assert_eq!(object["status"]["observedGeneration"], 1);
    bed.pass(Duration::from_secs(12 * 3_600)).await;
    assert_eq!(bed.source.counts(URL).fetches, 1);
}

#[tokio::test(start_paused = true)]
async fn a_branch_is_asked_for_each_interval_and_when_requested() {
    let bed = Bed::new();
    bed.commit(&[("a.yaml", "a: x\n")]);
    bed.repository("src", json!({})).await;
    bed.until(&repository("src"), |object| ready(object) == "True Succeeded")
        .await;
    bed.pass(Duration::from_secs(600)).await;
    let fetches = bed.source.counts(URL).fetches;
    assert!((9..=12).contains(&fetches), "{fetches}");
    bed.edit(&repository("src"), json!({"spec": {"interval": "24h"}}))
        .await;
    bed.pass(Duration::from_secs(5)).await;
    let newest = bed.commit(&[("a.yaml", "a: y\n")]);
    bed.edit(
        &repository("src"),
        json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "1"}}}),
    )
    .await;
    let object = bed
        .until(&repository("src"), |object| {
            object["status"]["lastHandledReconcileAt"] == "1"
        })
        .await;
    assert_eq!(
        object["status"]["artifact"]["revision"],
        format!("main@sha1:{newest}")
    );
}

/// Creates a repository; returns its Ready condition as `<reason>: <message>`, and whether it is stalled.
async fn fails(extra: Value) -> String {
    let bed = Bed::new();
    bed.commit(&[("a.yaml", "a: x\n")]);
    bed.repository("src", extra).await;
    let failed = |object: &Value| condition(object, "Ready").is_some_and(|ready| ready["status"] == "False");
    let object = bed.until(&repository("src"), failed).await;
    let stalled = if condition(&object, "Stalled").is_some() {
        " (stalled)"
    } else {
        ""
    };
    format!(
        "{}{stalled}: {}",
        condition(&object, "Ready").unwrap()["reason"].as_str().unwrap(),
        message(&object, "Ready")
    )
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_is_said() {
    let mut messages = Vec::new();
    messages.push(fails(json!({"ref": {"tag": "v9"}})).await);
    messages.push(fails(json!({"ref": {"branch": "lost"}})).await);
    messages.push(fails(json!({"ref": {"commit": "0123456789012345678901234567890123456789"}})).await);
    messages.push(fails(json!({"ref": {"commit": "0123456"}})).await);
    messages.push(fails(json!({"ref": {"semver": "1.x"}})).await);
    messages.push(fails(json!({"recurseSubmodules": true})).await);
    messages.push(fails(json!({"secretRef": {"name": "lost"}})).await);
    insta::assert_snapshot!(messages.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_back_is_noticed_within_a_minute_or_so() {
    let bed = Bed::new();
    let commit = bed.commit(&[("a.yaml", "a: x\n")]);
    let away = SourceError::Unreachable {
        url: URL.into(),
        why: "connection refused".into(),
    };
    bed.source.break_with(URL, source::Fault::Fail(away));
    bed.repository("src", json!({"ref": {"commit": commit}, "interval": "24h"}))
        .await;
    bed.pass(Duration::from_secs(3_600)).await;
    let tries = bed.source.counts(URL).fetches;
    assert!((50..=90).contains(&tries), "{tries} tries in an hour");
    bed.source.clear_fault(URL);
    let started = tokio::time::Instant::now();
    bed.until(&repository("src"), |object| ready(object) == "True Succeeded")
        .await;
    assert!(
        started.elapsed() <= Duration::from_secs(73),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_hangs_holds_up_no_other() {
    let bed = Bed::new();
    bed.source
        .commit("https://hangs.test/r", "main", [("a.yaml", "a: b")]);
    bed.source.break_with("https://hangs.test/r", source::Fault::Hang);
    for i in 0..20 {
        bed.repository(&format!("hangs-{i}"), json!({"url": "https://hangs.test/r"}))
            .await;
    }
    bed.commit(&[("a.yaml", "a: x\n")]);
    let started = tokio::time::Instant::now();
    bed.repository("src", json!({})).await;
    bed.until(&repository("src"), |object| ready(object) == "True Succeeded")
        .await;
    assert!(
        started.elapsed() <= Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    let object = bed
        .until(&repository("hangs-0"), |object| {
            ready(object) == "False GitOperationFailed"
        })
        .await;
    assert!(
        message(&object, "Ready").starts_with("https://hangs.test/r did not answer within 60s"),
        "{object:#}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_secret_value_appears_in_a_status() {
    let bed = Bed::new();
    bed.commit(&[("a.yaml", "a: x\n")]);
    bed.create(
        &format!("/api/v1/namespaces/{NS}/secrets"),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git"}, "stringData": {"username": "u", "password": "hunter\n2"}}),
    )
    .await;
    bed.repository("src", json!({"secretRef": {"name": "git"}})).await;
    let object = bed
        .until(&repository("src"), |object| {
            ready(object) == "False AuthenticationFailed"
        })
        .await;
    assert!(!object["status"].to_string().contains("hunter"), "{object:#}");
}
