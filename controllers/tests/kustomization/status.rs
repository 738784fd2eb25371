//! The status that other tools rely on, as kustomize-controller writes it: revisions, generations, conditions, handled
//! requests.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Bed, condition, config_yaml, deployment, deployment_yaml, done, kustomization, message, refused_yaml,
    words,
};

/// A revision is attempted once it was fetched and has the path, and applied once it is healthy.
#[tokio::test(start_paused = true)]
async fn a_revision_is_attempted_when_it_has_the_path_and_applied_when_it_is_healthy() {
    let bed = Bed::new();
    let revision = |commit: &str| Value::from(format!("main@sha1:{commit}"));
    bed.commit(&[("elsewhere/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({})).await;
    let object = bed.until_ready("app", "False ArtifactFailed").await;
    let status = &object["status"];
    assert_eq!(status["lastAttemptedRevision"], Value::Null);
    assert_eq!(status["observedGeneration"], Value::Null);

    let broken = bed.commit(&[("app/a.yaml", "a: [b")]);
    let object = bed.until_ready("app", "False BuildFailed").await;
    let status = &object["status"];
    assert_eq!(status["lastAttemptedRevision"], revision(&broken));
    assert_eq!(status["lastAppliedRevision"], Value::Null);
    assert_eq!(status["observedGeneration"], Value::Null);

    let good = bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx"))]);
    let object = bed.until_ready("app", "Unknown Progressing").await;
    let status = &object["status"];
    assert_eq!(status["lastAttemptedRevision"], revision(&good));
    assert_eq!(status["lastAppliedRevision"], Value::Null);
    bed.until(&deployment("d"), |_| true).await;
    bed.pass(Duration::from_secs(60)).await;
    let status = &bed.read(&kustomization("app")).await.unwrap()["status"];
    assert_eq!(
        status["lastAppliedRevision"],
        Value::Null,
        "it is not healthy yet"
    );
    assert_eq!(status["observedGeneration"], Value::Null);

    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    let status = &bed.until_at("app", &good).await["status"];
    assert_eq!(status["lastAttemptedRevision"], revision(&good));
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(
        bed.history("app"),
        [
            "False ArtifactFailed",
            "False BuildFailed",
            "Unknown Progressing",
            "True ReconciliationSucceeded",
        ]
    );
}

/// The conditions as `<type> <status> <reason> <observedGeneration>`.
fn conditions(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .map(|condition| {
            let text = words(condition, ["type", "status", "reason"]);
            format!("{text} {}", condition["observedGeneration"])
        })
        .collect()
}

/// A condition is about the generation that it has: without an apply there is no new health.
#[tokio::test(start_paused = true)]
async fn each_condition_carries_the_generation_that_it_speaks_of() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({})).await;
    let object = bed.until_at("app", &commit).await;
    let well = ["Ready True ReconciliationSucceeded 1", "Healthy True Succeeded 1"];
    assert_eq!(conditions(&object), well);

    bed.edit(&kustomization("app"), json!({"spec": {"path": "nowhere"}}))
        .await;
    let object = bed.until_ready("app", "False ArtifactFailed").await;
    let broken = [
        "Ready False ArtifactFailed 2",
        "Reconciling True ProgressingWithRetry 2",
        "Healthy True Succeeded 1",
    ];
    assert_eq!(conditions(&object), broken);
    assert_eq!(object["status"]["observedGeneration"], 1);

    bed.edit(&kustomization("app"), json!({"spec": {"images": []}}))
        .await;
    let object = bed.until_ready("app", "False Unsupported").await;
    let stalled = [
        "Ready False Unsupported 3",
        "Stalled True Unsupported 3",
        "Healthy True Succeeded 1",
    ];
    assert_eq!(conditions(&object), stalled);
    assert_eq!(object["status"]["observedGeneration"], 3);

    let fixed = json!({"spec": {"images": null, "path": "app"}});
    bed.edit(&kustomization("app"), fixed).await;
    let object = bed.until_ready("app", "True ReconciliationSucceeded").await;
    let well = ["Ready True ReconciliationSucceeded 4", "Healthy True Succeeded 4"];
    assert_eq!(conditions(&object), well);

    bed.edit(&kustomization("app"), json!({"spec": {"wait": false}}))
        .await;
    let object = bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert_eq!(conditions(&object), ["Ready True ReconciliationSucceeded 5"]);
}

#[tokio::test(start_paused = true)]
async fn healthy_says_what_ready_waits_for() {
    let bed = Bed::new();
    bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx"))]);
    bed.deploy(json!({})).await;
    let object = bed
        .until(&kustomization("app"), |object| {
            condition(object, "Healthy").is_some()
        })
        .await;
    let waiting = [
        "Ready Unknown Progressing 1",
        "Healthy Unknown Progressing 1",
        "Reconciling True Progressing 1",
    ];
    assert_eq!(conditions(&object), waiting);
    let object = bed.until_ready("app", "False HealthCheckFailed").await;
    let failed = [
        "Ready False HealthCheckFailed 1",
        "Healthy False HealthCheckFailed 1",
        "Reconciling True ProgressingWithRetry 1",
    ];
    assert_eq!(conditions(&object), failed);
}

/// A reconcile request is reported as handled, whatever the result.
#[tokio::test(start_paused = true)]
async fn a_request_is_answered_whatever_comes_of_it() {
    let bed = Bed::new();
    bed.commit(&[
        ("good/a.yaml", &config_yaml("a", "x")),
        ("broken/b.yaml", "a: [b"),
        ("ill/d.yaml", &deployment_yaml("d", "nginx")),
    ]);
    bed.repository("src", json!({})).await;
    let mut names = Vec::new();
    for (name, extra, outcome) in [
        ("good", json!({}), "True ReconciliationSucceeded"),
        ("broken", json!({}), "False BuildFailed"),
        ("nowhere", json!({}), "False ArtifactFailed"),
        ("ill", json!({"timeout": "1m"}), "False HealthCheckFailed"),
        ("refused", json!({"images": []}), "False Unsupported"),
        (
            "dependent",
            json!({"dependsOn": [{"name": "nothing"}]}),
            "False DependencyNotReady",
        ),
        (
            "sourceless",
            json!({"sourceRef": {"kind": "GitRepository", "name": "nothing"}}),
            "False ArtifactFailed",
        ),
    ] {
        bed.kustomization(name, extra).await;
        bed.until_ready(name, outcome).await;
        names.push(name);
    }
    for name in names {
        bed.request(name, "now").await;
        let answered = |object: &Value| object["status"]["lastHandledReconcileAt"] == "now";
        let requested_at = tokio::time::Instant::now();
        bed.until(&kustomization(name), answered).await;
        let most = if name == "ill" { 70 } else { 1 };
        assert!(
            requested_at.elapsed() <= Duration::from_secs(most),
            "{name}: {:?}",
            requested_at.elapsed()
        );
    }
}

/// A lasting state is reported once: neither a retry nor an interval writes the status again.
#[tokio::test(start_paused = true)]
async fn nothing_is_said_twice() {
    let bed = Bed::new();
    bed.commit(&[
        ("good/a.yaml", &config_yaml("a", "x")),
        ("broken/b.yaml", "a: [b"),
        ("ill/d.yaml", &deployment_yaml("d", "nginx")),
        ("refused/e.yaml", &refused_yaml("e")),
    ]);
    bed.repository("src", json!({})).await;
    for (name, extra, outcome) in [
        ("good", json!({"interval": "1m"}), "True ReconciliationSucceeded"),
        ("broken", json!({}), "False BuildFailed"),
        ("nowhere", json!({}), "False ArtifactFailed"),
        ("ill", json!({"timeout": "1m"}), "False HealthCheckFailed"),
        ("refused", json!({}), "False ReconciliationFailed"),
        (
            "dependent",
            json!({"dependsOn": [{"name": "broken"}]}),
            "False DependencyNotReady",
        ),
    ] {
        bed.kustomization(name, extra).await;
        bed.until_ready(name, outcome).await;
    }
    bed.pass(Duration::from_secs(5)).await;
    bed.api.recorder().clear();
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(bed.api.recorder().events().len(), 0, "{:?}", bed.writes());
}

/// The progress messages, in order.
#[tokio::test(start_paused = true)]
async fn progress_messages_are_written_in_order() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx"))]);
    bed.deploy(json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    bed.until_at("app", &commit).await;
    let mut messages: Vec<String> = Vec::new();
    for event in bed.api.recorder().events() {
        let text = message(event.object(), "Reconciling").replace(&commit, "<commit>");
        if event.object()["kind"] == "Kustomization" && messages.last() != Some(&text) {
            messages.push(text);
        }
    }
    insta::assert_snapshot!(messages.join("\n"));
}
