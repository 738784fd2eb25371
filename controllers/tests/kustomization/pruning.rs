//! What is removed from the source is removed from the cluster, and nothing else is.

use std::time::Duration;

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_sync::source::{self, SourceError};
use serde_json::json;

use crate::support::{
    Bed, URL, condition, config, config_yaml, deployment, deployment_yaml, ids, kustomization, message,
    ready, refused_yaml, repository,
};

/// ConfigMaps `a` and `b`, the second with a finalizer that nothing in the cluster removes.
async fn with_a_held_one(bed: &Bed, extra: serde_json::Value) -> String {
    let held = config_yaml("b", "x").replace(
        "namespace: default",
        "namespace: default, finalizers: [example.org/hold]",
    );
    let first = bed.commit(&[("app/a.yaml", &config_yaml("a", "x")), ("app/b.yaml", &held)]);
    bed.deploy(extra).await;
    bed.until_at("app", &first).await;
    first
}

/// What `why` and every reader of the status must see, instead of a Ready that hides an object that still exists.
#[tokio::test(start_paused = true)]
async fn what_a_finalizer_holds_is_waited_for_by_name() {
    for wait in [true, false] {
        let bed = Bed::new();
        let first = with_a_held_one(&bed, json!({"wait": wait})).await;
        let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
        let awaited = "waiting for the termination of ConfigMap/default/b";
        let object = bed
            .until(&kustomization("app"), |object| {
                message(object, "Ready") == awaited
            })
            .await;
        assert_eq!(ready(&object), "Unknown Progressing");
        assert_eq!(message(&object, "Reconciling"), awaited);
        let healthy = condition(&object, "Healthy").map(|healthy| healthy["status"].clone());
        assert_eq!(healthy, wait.then(|| json!("True")));
        bed.pass(Duration::from_secs(200)).await;
        let object = bed.read(&kustomization("app")).await.unwrap();
        assert_eq!(ready(&object), "Unknown Progressing");
        assert_eq!(
            object["status"]["lastAppliedRevision"],
            format!("main@sha1:{first}")
        );
        assert_eq!(ids(&object), ["default_a__ConfigMap", "default_b__ConfigMap"]);
        // Everything else is done meanwhile.
        assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "two");

        bed.edit(&config("b"), json!({"metadata": {"finalizers": null}}))
            .await;
        let gone = tokio::time::Instant::now();
        let object = bed.until_at("app", &second).await;
        assert!(gone.elapsed() <= Duration::from_secs(6), "{:?}", gone.elapsed());
        assert_eq!(ids(&object), ["default_a__ConfigMap"]);
        assert!(bed.read(&config("b")).await.is_none());
    }
}

/// After the timeout it is a failure, which stays without further writes until the object is gone.
#[tokio::test(start_paused = true)]
async fn what_is_not_gone_in_time_is_a_failure_until_it_is() {
    let bed = Bed::new();
    with_a_held_one(&bed, json!({})).await;
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.until(&config("b"), |object| {
        object["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    let deleted = tokio::time::Instant::now();
    let object = bed.until_ready("app", "False PruneFailed").await;
    let took = deleted.elapsed();
    assert!((298..=310).contains(&took.as_secs()), "{took:?}");
    assert_eq!(
        message(&object, "Ready"),
        "pruning is not done after 5m: waiting for the termination of ConfigMap/default/b; see metadata.finalizers of the object \
         for what blocks it"
    );
    assert_eq!(ids(&object), ["default_a__ConfigMap", "default_b__ConfigMap"]);

    bed.api.recorder().clear();
    bed.pass(Duration::from_secs(1_500)).await;
    assert_eq!(
        ready(&bed.read(&kustomization("app")).await.unwrap()),
        "False PruneFailed"
    );
    assert_eq!(bed.writes(), Vec::<String>::new());

    bed.edit(&config("b"), json!({"metadata": {"finalizers": null}}))
        .await;
    let gone = tokio::time::Instant::now();
    let object = bed.until_at("app", &second).await;
    assert!(gone.elapsed() <= Duration::from_secs(70), "{:?}", gone.elapsed());
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
}

/// An unhealthy object is reported first: it is the version's fault, and the blocked deletion is the cluster's.
#[tokio::test(start_paused = true)]
async fn what_is_not_healthy_is_said_before_what_is_not_gone() {
    let bed = Bed::new();
    with_a_held_one(&bed, json!({})).await;
    bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx:bad"))]);
    bed.until(&deployment("d"), |_| true).await;
    let object = bed.until_ready("app", "False HealthCheckFailed").await;
    assert!(
        message(&object, "Ready").contains("Deployment/default/d status: 'InProgress'"),
        "{object:#}"
    );
    assert!(bed.read(&config("a")).await.is_none());
}

/// ConfigMaps `a` and `b` exist.
async fn with_two(extra: serde_json::Value) -> Bed {
    let bed = Bed::new();
    let both = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "x")),
        ("app/b.yaml", &config_yaml("b", "x")),
    ]);
    bed.deploy(extra).await;
    bed.until_at("app", &both).await;
    bed
}

#[tokio::test(start_paused = true)]
async fn what_leaves_the_source_leaves_the_cluster() {
    let bed = with_two(json!({})).await;
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    let object = bed.until_at("app", &second).await;
    assert!(bed.read(&config("b")).await.is_none());
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
}

#[tokio::test(start_paused = true)]
async fn without_prune_it_is_let_go() {
    let bed = with_two(json!({"prune": false})).await;
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    let object = bed.until_at("app", &second).await;
    assert!(bed.read(&config("b")).await.is_some());
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_away_or_broken_is_no_reason_to_delete() {
    let bed = Bed::new();
    let good = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &good).await;
    let away = SourceError::Unreachable {
        url: URL.into(),
        why: "connection refused".into(),
    };
    bed.source.break_with(URL, source::Fault::Fail(away));
    let object = bed
        .until(&repository("src"), |object| {
            ready(object) == "False GitOperationFailed"
        })
        .await;
    let text = message(&object, "Ready");
    assert!(text.starts_with("https://git.test/fleet cannot be reached: connection refused; the last good revision is main@sha1:"), "{text}");
    assert_eq!(
        object["status"]["artifact"]["revision"],
        format!("main@sha1:{good}")
    );
    bed.pass(Duration::from_secs(3_600)).await;
    assert!(bed.read(&config("a")).await.is_some());
    assert_eq!(
        ready(&bed.read(&kustomization("app")).await.unwrap()),
        "True ReconciliationSucceeded"
    );
    bed.source.clear_fault(URL);
    let next = bed.commit(&[("app/b.yaml", "a: [b")]);
    let object = bed.until_ready("app", "False BuildFailed").await;
    assert_eq!(
        object["status"]["lastAttemptedRevision"],
        format!("main@sha1:{next}")
    );
    assert_eq!(
        object["status"]["lastAppliedRevision"],
        format!("main@sha1:{good}")
    );
    assert!(bed.read(&config("a")).await.is_some());
    bed.delete(&repository("src")).await;
    bed.until_ready("app", "False ArtifactFailed").await;
    bed.pass(Duration::from_secs(3_600)).await;
    assert!(bed.read(&config("a")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_empty_path_is_not_believed() {
    let bed = Bed::new();
    let first = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &first).await;
    let empty = bed.commit(&[("app/empty.yaml", "# nothing\n")]);
    bed.until_ready("app", "False EmptyWouldPruneAll").await;
    assert!(bed.read(&config("a")).await.is_some());
    let meant = json!({"metadata": {"annotations": {"fleet.muster.dev/allow-empty": "true"}}});
    bed.edit(&kustomization("app"), meant).await;
    let said = tokio::time::Instant::now();
    bed.until_at("app", &empty).await;
    assert!(said.elapsed() <= Duration::from_secs(1), "{:?}", said.elapsed());
    assert!(bed.read(&config("a")).await.is_none());
}

/// A rejected object prevents pruning of everything from the previous revision.
#[tokio::test(start_paused = true)]
async fn nothing_is_pruned_before_everything_is_applied() {
    let bed = Bed::new();
    let first = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &first).await;
    bed.commit(&[
        ("app/b.yaml", &config_yaml("b", "x")),
        ("app/c.yaml", &refused_yaml("c")),
    ]);
    let object = bed.until_ready("app", "False ReconciliationFailed").await;
    assert!(bed.read(&config("a")).await.is_some());
    assert!(
        bed.read(&config("b")).await.is_some(),
        "the others of the stage are applied"
    );
    assert_eq!(
        ids(&object),
        [
            "default_a__ConfigMap",
            "default_b__ConfigMap",
            "default_c__ConfigMap"
        ]
    );
    let third = bed.commit(&[("app/b.yaml", &config_yaml("b", "x"))]);
    let object = bed.until_at("app", &third).await;
    assert_eq!(ids(&object), ["default_b__ConfigMap"]);
}

#[tokio::test(start_paused = true)]
async fn survivors_of_a_prune_stay_on_record_until_they_are_gone() {
    let bed = with_two(json!({})).await;
    let matching = Match {
        verbs: vec![Verb::Delete],
        path: Some("configmaps/b".into()),
        ..Match::default()
    };
    let rule = bed
        .api
        .faults()
        .add(Rule::always(matching, Fault::Status(Failure::Forbidden)));
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    let object = bed.until_ready("app", "False PruneFailed").await;
    assert_eq!(ids(&object), ["default_a__ConfigMap", "default_b__ConfigMap"]);
    assert!(message(&object, "Ready").starts_with("ConfigMap/default/b delete failed (Forbidden)"));
    bed.api.faults().remove(rule);
    let object = bed.until_at("app", &second).await;
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
    assert!(bed.read(&config("b")).await.is_none());
}

/// At whatever moment a crash happens: an existing object is recorded.
#[tokio::test(start_paused = true)]
async fn an_object_is_on_record_before_it_exists() {
    let mut bed = Bed::new();
    let matching = Match {
        verbs: vec![Verb::Patch],
        path: Some("configmaps/a".into()),
        ..Match::default()
    };
    bed.api.faults().add(Rule::always(matching, Fault::DropResponse));
    bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({})).await;
    bed.until(&config("a"), |_| true).await;
    bed.crash();
    let object = bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
    bed.api.faults().clear();
    let gone = bed.commit(&[("app/b.yaml", &config_yaml("b", "x"))]);
    bed.start();
    bed.until_at("app", &gone).await;
    assert!(bed.read(&config("a")).await.is_none());
}

/// A deletion is decided early and done late; a decision about a spec that has changed by then is not applied.
#[tokio::test(start_paused = true)]
async fn pruning_that_is_disabled_in_the_meantime_deletes_nothing() {
    let bed = with_two(json!({})).await;
    let slow = Match {
        verbs: vec![Verb::Patch],
        path: Some("configmaps/a".into()),
        ..Match::default()
    };
    let rule = Rule::always(slow, Fault::Delay(Duration::from_secs(10)));
    let rule = bed.api.faults().add(rule);
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
    bed.until_ready("app", "Unknown Progressing").await;
    bed.edit(&kustomization("app"), json!({"spec": {"prune": false}}))
        .await;
    bed.until(&config("a"), |object| object["data"]["key"] == "two")
        .await;
    bed.api.faults().remove(rule);
    let object = bed.until_at("app", &second).await;
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
    assert!(bed.read(&config("b")).await.is_some());
}
