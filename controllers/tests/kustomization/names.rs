//! A name is unique: whatever characters it has, it never refers to another object.

use serde_json::{Value, json};

use crate::support::{Bed, config, config_yaml, ids, kustomization, message, ready};

fn role_yaml(name: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {name}\nrules: []\n"
    )
}

fn role(name: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")
}

fn namespace_yaml(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n")
}

/// Waits until a revision has a verdict; returns the Kustomization.
async fn judged(bed: &Bed, commit: &str) -> Value {
    let revision = format!("main@sha1:{commit}");
    let at = kustomization("app");
    bed.until(&at, |object| {
        object["status"]["lastAttemptedRevision"] == revision
            && ["True ", "False "]
                .iter()
                .any(|begin| ready(object).starts_with(begin))
    })
    .await
}

/// A commit adds an object whose name starts with that of another one, and is reverted: the other one stays, untouched.
async fn added_and_reverted(path: &str, good: &str, added: &str) -> String {
    let bed = Bed::new();
    let first = bed.commit(&[("app/a.yaml", good)]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &first).await;
    let before = bed.read(path).await.unwrap();
    let second = bed.commit(&[("app/a.yaml", good), ("app/b.yaml", added)]);
    let attempted = judged(&bed, &second).await;
    let third = bed.commit(&[("app/a.yaml", good)]);
    let object = bed.until_at("app", &third).await;
    let after = bed.read(path).await;
    assert_eq!(
        after.map(|object| object["metadata"].clone()),
        Some(before["metadata"].clone()),
        "{path}"
    );
    assert_eq!(ids(&object).len(), 1, "{path}");
    format!("{} {}", ready(&attempted), message(&attempted, "Ready"))
}

#[tokio::test(start_paused = true)]
async fn a_revert_deletes_no_object_of_another_name() {
    let settings = config_yaml("settings", "x");
    let outcome = added_and_reverted(&config("settings"), &settings, &config_yaml("settings?v=2", "x")).await;
    assert!(
        outcome.starts_with("False BuildFailed app/b.yaml:3:18: metadata.name \"settings?v=2\" is not a name that an API server accepts: "),
        "{outcome}"
    );
    let outcome = added_and_reverted(
        "/api/v1/namespaces/x",
        &namespace_yaml("x"),
        &namespace_yaml("x#blue"),
    )
    .await;
    assert!(
        outcome.starts_with("False BuildFailed app/b.yaml:4:9: metadata.name \"x#blue\" is not a name that an API server accepts: "),
        "{outcome}"
    );
    // RBAC kinds have names with any characters that a path can have.
    let outcome = added_and_reverted(&role("reader"), &role_yaml("reader"), &role_yaml("reader#2")).await;
    assert!(outcome.starts_with("True ReconciliationSucceeded"), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn a_role_with_a_blank_in_its_name_is_applied_and_pruned() {
    let bed = Bed::new();
    let stays = config_yaml("a", "x");
    let first = bed.commit(&[("app/a.yaml", &stays), ("app/b.yaml", &role_yaml("my role"))]);
    bed.deploy(json!({})).await;
    let object = bed.until_at("app", &first).await;
    assert!(bed.read(&role("my%20role")).await.is_some());
    assert_eq!(
        ids(&object),
        [
            "_my role_rbac.authorization.k8s.io_ClusterRole",
            "default_a__ConfigMap"
        ]
    );
    let second = bed.commit(&[("app/a.yaml", &stays)]);
    let object = bed.until_at("app", &second).await;
    assert_eq!(bed.read(&role("my%20role")).await, None);
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
}

/// An inventory would record it as `ops:reader`, and never find it again.
#[tokio::test(start_paused = true)]
async fn a_name_that_reads_back_as_another_is_refused_and_nothing_is_lost() {
    let bed = Bed::new();
    let stays = config_yaml("a", "x");
    let first = bed.commit(&[("app/a.yaml", &stays)]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &first).await;
    bed.commit(&[("app/b.yaml", &role_yaml("ops__reader"))]);
    let object = bed.until_ready("app", "False MisreadName").await;
    let text = message(&object, "Ready");
    assert!(
        text.starts_with(
            "app/b.yaml:4:9: metadata.name \"ops__reader\" would be recorded as the name of another object"
        ),
        "{text}"
    );
    assert_eq!(ids(&object), ["default_a__ConfigMap"]);
    assert!(bed.read(&config("a")).await.is_some());
    assert_eq!(bed.read(&role("ops__reader")).await, None);
}
