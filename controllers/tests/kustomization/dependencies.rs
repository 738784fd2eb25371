//! A Kustomization waits for what it depends on: ready, now, and at the same revision if it has the same source.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bed, config, config_yaml, deployment, deployment_yaml, done, kustomization, message};

#[tokio::test(start_paused = true)]
async fn nothing_is_applied_before_what_it_depends_on_is_ready() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("base/d.yaml", &deployment_yaml("d", "nginx")),
        ("app/a.yaml", &config_yaml("a", "x")),
    ]);
    bed.deploy(json!({"dependsOn": [{"name": "base"}]})).await;
    let object = bed.until_ready("app", "False DependencyNotReady").await;
    assert_eq!(message(&object, "Ready"), "dependency 'fleet/base' not found");
    bed.kustomization("base", json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.pass(Duration::from_secs(60)).await;
    assert!(bed.read(&config("a")).await.is_none());
    let object = bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(message(&object, "Ready"), "dependency 'fleet/base' is not ready");
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    let ready = tokio::time::Instant::now();
    bed.until_at("app", &commit).await;
    assert!(
        ready.elapsed() <= Duration::from_secs(12),
        "{:?}",
        ready.elapsed()
    );
}

/// Each revision of one source is applied in the order of the dependencies.
#[tokio::test(start_paused = true)]
async fn of_one_source_it_waits_for_the_same_revision() {
    let bed = Bed::new();
    let files = |value: &str, image: &str| {
        [
            ("base/d.yaml", deployment_yaml("d", image)),
            ("app/a.yaml", config_yaml("a", value)),
        ]
    };
    let commit = |files: [(&str, String); 2]| {
        let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
        bed.commit(&files)
    };
    let first = commit(files("one", "nginx:1"));
    bed.deploy(json!({"dependsOn": [{"name": "base"}]})).await;
    bed.kustomization("base", json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    bed.until_at("app", &first).await;
    let second = commit(files("two", "nginx:2"));
    bed.until(&deployment("d"), |object| object["metadata"]["generation"] == 2)
        .await;
    bed.pass(Duration::from_secs(120)).await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "one");
    bed.edit(&format!("{}/status", deployment("d")), done(2)).await;
    bed.until_at("app", &second).await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "two");
    let history = bed.history("app");
    assert_eq!(
        history[history.len() - 3..],
        [
            "False DependencyNotReady",
            "Unknown Progressing",
            "True ReconciliationSucceeded"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_circle_is_named_by_each_of_it() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("a/a.yaml", &config_yaml("a", "x")),
        ("b/b.yaml", &config_yaml("b", "x")),
        ("c/c.yaml", &config_yaml("c", "x")),
    ]);
    bed.repository("src", json!({})).await;
    for (name, needs) in [("a", "b"), ("b", "c"), ("c", "a")] {
        bed.kustomization(name, json!({"dependsOn": [{"name": needs}]}))
            .await;
    }
    for (name, circle) in [
        ("a", "fleet/a -> fleet/b -> fleet/c -> fleet/a"),
        ("b", "fleet/b -> fleet/c -> fleet/a -> fleet/b"),
        ("c", "fleet/c -> fleet/a -> fleet/b -> fleet/c"),
    ] {
        let expect = format!("dependencies form a cycle: {circle}; remove one of them");
        let object = bed
            .until(&kustomization(name), |object| message(object, "Ready") == expect)
            .await;
        assert_eq!(crate::support::ready(&object), "False DependencyNotReady");
        assert!(bed.read(&config(name)).await.is_none());
    }
    bed.edit(&kustomization("c"), json!({"spec": {"dependsOn": null}}))
        .await;
    for name in ["a", "b", "c"] {
        bed.until_at(name, &commit).await;
    }
}

/// A dependency that fails later delays new revisions, and undoes nothing.
#[tokio::test(start_paused = true)]
async fn a_dependency_that_fails_later_undoes_nothing() {
    let bed = Bed::new();
    let good = bed.commit(&[
        ("base/b.yaml", &config_yaml("b", "one")),
        ("app/a.yaml", &config_yaml("a", "one")),
    ]);
    bed.deploy(json!({"dependsOn": [{"name": "base"}]})).await;
    bed.kustomization("base", json!({})).await;
    bed.until_at("app", &good).await;
    let before = bed.deployed().await;
    bed.commit(&[("base/b.yaml", "a: [b"), ("app/a.yaml", &config_yaml("a", "two"))]);
    bed.until_ready("base", "False BuildFailed").await;
    bed.until_ready("app", "False DependencyNotReady").await;
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(bed.deployed().await, before);
}
