//! The newest revision of the source counts, in whichever direction it moves and whatever is in progress.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::{Bed, config, config_yaml, deployment, deployment_yaml, ids, kustomization, repository};

/// A source that is reset to an older commit is followed: content, inventory and status.
#[tokio::test(start_paused = true)]
async fn backwards_as_well_as_forwards() {
    let bed = Bed::new();
    let first = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "one")),
        ("app/b.yaml", &config_yaml("b", "one")),
    ]);
    let second = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "two")),
        ("app/c.yaml", &config_yaml("c", "two")),
    ]);
    bed.repository("src", json!({"ref": {"commit": first}})).await;
    bed.kustomization("app", json!({})).await;
    let at = |commit: &str| {
        let revision = format!("sha1:{commit}");
        bed.until(&kustomization("app"), move |object| {
            object["status"]["lastAppliedRevision"] == revision
        })
    };
    for commit in [&first, &second, &first, &second, &first] {
        bed.edit(&repository("src"), json!({"spec": {"ref": {"commit": commit}}}))
            .await;
        let object = at(commit).await;
        let (value, names) = if *commit == first {
            ("one", ["a", "b"])
        } else {
            ("two", ["a", "c"])
        };
        assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], value);
        assert_eq!(
            ids(&object),
            names.map(|name| format!("default_{name}__ConfigMap"))
        );
    }
    assert!(bed.read(&config("c")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_new_revision_ends_a_running_check() {
    let bed = Bed::new();
    bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx:bad"))]);
    bed.deploy(json!({"timeout": "1h", "interval": "2h"})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.pass(Duration::from_secs(300)).await;
    let fixed = bed.commit(&[("app/a.yaml", &config_yaml("a", "fixed"))]);
    let revision = format!("main@sha1:{fixed}");
    bed.until(&repository("src"), |object| {
        object["status"]["artifact"]["revision"] == revision
    })
    .await;
    let fetched = Instant::now();
    bed.until_at("app", &fixed).await;
    assert!(
        fetched.elapsed() <= Duration::from_secs(1),
        "{:?}",
        fetched.elapsed()
    );
    assert!(bed.read(&deployment("d")).await.is_none());
    assert_eq!(
        bed.history("app"),
        [
            "False ArtifactFailed",
            "Unknown Progressing",
            "True ReconciliationSucceeded"
        ][1..]
    );
}

/// A changed spec ends a running check as well.
#[tokio::test(start_paused = true)]
async fn another_spec_ends_a_running_check() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx:bad"))]);
    bed.deploy(json!({"timeout": "1h", "interval": "2h"})).await;
    bed.until_ready("app", "Unknown Progressing").await;
    bed.pass(Duration::from_secs(300)).await;
    bed.edit(&kustomization("app"), json!({"spec": {"wait": false}}))
        .await;
    let edited = Instant::now();
    bed.until_at("app", &commit).await;
    assert!(
        edited.elapsed() <= Duration::from_secs(1),
        "{:?}",
        edited.elapsed()
    );
}
