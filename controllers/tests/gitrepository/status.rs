//! The status: Flux's messages, for each state of a repository.

use std::time::Duration;

use muster_sync::source::Fault;
use serde_json::{Value, json};

use crate::support::{Bed, NS, URL, condition, message, ready, repository};

const FIRST: &str = "2026-11-21T12:";

/// Conditions as `<type> <status> <reason>`; each must have an observedGeneration.
fn conditions(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let mut lines: Vec<String> = conditions
        .iter()
        .map(|condition| {
            assert!(condition["observedGeneration"].is_i64(), "{condition}");
            let word = |field: &str| condition[field].as_str().unwrap().to_owned();
            format!("{} {} {}", word("type"), word("status"), word("reason"))
        })
        .collect();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn an_artifact_has_revision_digest_size_and_time() {
    let bed = Bed::new();
    let commit = bed.commit(&[("a.yaml", "a: 1\n"), ("b.txt", "four")]);
    bed.repository("src", json!({})).await;
    let object = bed.until_ready("src", "True Succeeded").await;
    let status = &object["status"];
    let artifact = &status["artifact"];
    assert_eq!(artifact["revision"], format!("main@sha1:{commit}"));
    assert_eq!(artifact["size"], 9);
    assert!(artifact["digest"].as_str().unwrap().starts_with("sha256:"));
    assert!(artifact["lastUpdateTime"].as_str().unwrap().starts_with(FIRST));
    // source-controller deletes old files in the directory of a path: it must be the directory of this object.
    assert_eq!(artifact["path"], format!("gitrepository/{NS}/src/{commit}.git"));
    assert_eq!(artifact["url"], "");
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(conditions(&object), ["Ready True Succeeded"]);
    assert_eq!(
        message(&object, "Ready"),
        format!("stored artifact for revision 'main@sha1:{commit}'")
    );
    // The time is that of the content, not that of the last fetch.
    bed.pass(Duration::from_mins(10)).await;
    let later = bed.read(&repository("src")).await.unwrap();
    assert_eq!(later["status"]["artifact"], *artifact);
    let newer = bed.commit(&[("a.yaml", "a: 2\n")]);
    let changed = bed
        .until(&repository("src"), |object| {
            object["status"]["artifact"]["revision"] == format!("main@sha1:{newer}")
        })
        .await;
    assert_ne!(
        changed["status"]["artifact"]["lastUpdateTime"],
        artifact["lastUpdateTime"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_revision_says_how_the_commit_was_named() {
    let bed = Bed::new();
    let commit = bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.source.tag(URL, "v1", &commit.parse().unwrap());
    for (name, reference, prefix) in [
        ("by-branch", json!({"branch": "main"}), "main@"),
        ("by-tag", json!({"tag": "v1"}), "v1@"),
        ("by-commit", json!({"commit": commit}), ""),
        ("by-both", json!({"branch": "main", "commit": commit}), ""),
        ("tag-wins", json!({"branch": "main", "tag": "v1"}), "v1@"),
    ] {
        bed.repository(name, json!({"ref": reference})).await;
        let object = bed.until_ready(name, "True Succeeded").await;
        assert_eq!(
            object["status"]["artifact"]["revision"],
            format!("{prefix}sha1:{commit}"),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_of_a_new_spec_is_announced() {
    let bed = Bed::new();
    let commit = bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({})).await;
    bed.until_ready("src", "True Succeeded").await;
    bed.source.break_with(URL, Fault::Hang);
    bed.edit(&repository("src"), json!({"spec": {"ref": {"branch": "other"}}}))
        .await;
    let object = bed.until_ready("src", "Unknown Progressing").await;
    assert_eq!(
        conditions(&object),
        ["Ready Unknown Progressing", "Reconciling True Progressing"]
    );
    assert_eq!(message(&object, "Reconciling"), "fetching branch \"other\"");
    assert_eq!(object["status"]["observedGeneration"], 1, "not finished yet");
    assert_eq!(
        object["status"]["artifact"]["revision"],
        format!("main@sha1:{commit}")
    );
    bed.source.clear_fault(URL);
    let object = bed.until_ready("src", "False GitOperationFailed").await;
    assert_eq!(
        conditions(&object),
        [
            "Ready False GitOperationFailed",
            "Reconciling True ProgressingWithRetry"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let bed = Bed::new();
    bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("good", json!({})).await;
    bed.repository("lost", json!({"ref": {"tag": "v9"}})).await;
    bed.repository("refused", json!({"recurseSubmodules": true}))
        .await;
    bed.until_ready("good", "True Succeeded").await;
    bed.until_ready("lost", "False GitOperationFailed").await;
    bed.until_ready("refused", "False Unsupported").await;
    bed.pass(Duration::from_secs(5)).await;
    bed.api.recorder().clear();
    bed.pass(Duration::from_hours(3)).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_once_and_repeated_in_the_status() {
    let bed = Bed::new();
    bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({"interval": "24h"})).await;
    bed.until_ready("src", "True Succeeded").await;
    let before = bed.source.counts(URL).fetches;
    bed.request("src", "one").await;
    let answered = |at: &'static str| move |object: &Value| object["status"]["lastHandledReconcileAt"] == at;
    bed.until(&repository("src"), answered("one")).await;
    bed.pass(Duration::from_hours(1)).await;
    assert_eq!(bed.source.counts(URL).fetches, before + 1);
    // A failure handles the request too.
    bed.source.break_with(
        URL,
        Fault::Fail(muster_sync::source::SourceError::RepositoryNotFound { url: URL.into() }),
    );
    bed.request("src", "two").await;
    let object = bed.until(&repository("src"), answered("two")).await;
    assert_eq!(ready(&object), "False GitOperationFailed");
}

#[tokio::test(start_paused = true)]
async fn what_is_suspended_is_left_alone() {
    let bed = Bed::new();
    let commit = bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({})).await;
    bed.until_ready("src", "True Succeeded").await;
    bed.edit(&repository("src"), json!({"spec": {"suspend": true}}))
        .await;
    bed.pass(Duration::from_secs(5)).await;
    let before = bed.source.counts(URL).fetches;
    bed.api.recorder().clear();
    let newer = bed.commit(&[("a.yaml", "a: 2\n")]);
    bed.request("src", "now").await;
    bed.pass(Duration::from_hours(1)).await;
    assert_eq!((bed.source.counts(URL).fetches, bed.writes().len()), (before, 0));
    let object = bed.read(&repository("src")).await.unwrap();
    assert_eq!(
        object["status"]["artifact"]["revision"],
        format!("main@sha1:{commit}")
    );
    bed.edit(&repository("src"), json!({"spec": {"suspend": false}}))
        .await;
    bed.until(&repository("src"), |object| {
        object["status"]["artifact"]["revision"] == format!("main@sha1:{newer}")
            && object["status"]["lastHandledReconcileAt"] == "now"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_stalled_by_name_and_keeps_what_it_has() {
    let bed = Bed::new();
    let commit = bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({})).await;
    bed.until_ready("src", "True Succeeded").await;
    let mut messages = Vec::new();
    for (field, value) in [
        ("verify", json!({"mode": "Always", "secretRef": {"name": "keys"}})),
        (
            "verify",
            json!({"mode": "TagAndHEAD", "secretRef": {"name": "keys"}}),
        ),
        ("verify", json!({"mode": "HEAD", "secretRef": null})),
        ("include", json!([{"repository": {"name": "x"}}])),
        ("recurseSubmodules", json!(true)),
        ("sparseCheckout", json!(["x"])),
        ("provider", json!("azure")),
        ("serviceAccountName", json!("x")),
        ("gitImplementation", json!("libgit2")),
        ("ref", json!({"semver": ">=1.0.0"})),
        ("ref", json!({"name": "refs/pull/1/head"})),
        ("ref", json!({"commit": "HEAD~1"})),
        ("url", json!("https://git.test/x")),
    ] {
        bed.edit(&repository("src"), json!({"spec": {field: value}}))
            .await;
        if field == "url" {
            break;
        }
        let object = bed
            .until(&repository("src"), |object| {
                condition(object, "Stalled").is_some() && !ready(object).is_empty()
            })
            .await;
        assert_eq!(
            object["status"]["artifact"]["revision"],
            format!("main@sha1:{commit}")
        );
        assert_eq!(
            object["status"]["observedGeneration"],
            object["metadata"]["generation"]
        );
        let message = message(&object, "Stalled");
        let kept = format!("; the last good revision is main@sha1:{commit} of {FIRST}");
        let (message, _) = message
            .split_once(&kept)
            .unwrap_or_else(|| panic!("{field}: {message}"));
        messages.push(format!("{}: {message}", ready(&object)));
        let undo = if field == "ref" {
            json!({"commit": null, "name": null, "semver": null})
        } else {
            Value::Null
        };
        bed.edit(&repository("src"), json!({"spec": {field: undo}})).await;
        let object = bed.until_ready("src", "True Succeeded").await;
        assert_eq!(conditions(&object), ["Ready True Succeeded"], "{field}");
    }
    insta::assert_snapshot!(messages.join("\n"));
}
