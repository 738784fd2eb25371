//! Objects that are up to date are not written; drifted ones are restored.

use muster_sync::apply::ApplyOutcome;
use serde_json::json;

use crate::support::{Bed, config_map, deployment, namespace, secret, widget, widget_definition};

const CONFIG: &str = "/api/v1/namespaces/default/configmaps/a";

#[tokio::test(start_paused = true)]
async fn a_second_time_nothing_is_written() {
    let bed = Bed::new();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}});
    let all = [
        namespace("made"),
        widget_definition("Namespaced"),
        widget("w", 2),
        config_map("a", &json!({"k": "v"})),
        deployment("d", "nginx"),
        secret("s", &json!({"password": "hunter2"})),
        service,
    ];
    bed.applied(&all).await;
    bed.api.recorder().clear();
    let outcomes = bed.applied(&all).await;
    assert!(
        outcomes
            .values()
            .all(|outcome| *outcome == ApplyOutcome::Unchanged),
        "{outcomes:?}"
    );
    assert_eq!(bed.writes(), Vec::<String>::new());
    assert_eq!(
        bed.api.recorder().events().len(),
        0,
        "no object got another version"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hand_edited_field_is_put_back() {
    let bed = Bed::new();
    let wanted = [config_map("a", &json!({"k": "v"}))];
    bed.applied(&wanted).await;
    bed.edit_as(
        "operator",
        CONFIG,
        json!({"data": {"k": "other", "theirs": "stays"}}),
    )
    .await;
    assert_eq!(
        bed.applied(&wanted).await["ConfigMap/default/a"],
        ApplyOutcome::Configured
    );
    assert_eq!(
        bed.read(CONFIG).await.unwrap()["data"],
        json!({"k": "v", "theirs": "stays"})
    );
    assert_eq!(
        bed.applied(&wanted).await["ConfigMap/default/a"],
        ApplyOutcome::Unchanged
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_comes_back() {
    let bed = Bed::new();
    let wanted = [config_map("a", &json!({"k": "v"}))];
    bed.applied(&wanted).await;
    bed.send("DELETE", CONFIG, None).await.unwrap();
    assert_eq!(
        bed.applied(&wanted).await["ConfigMap/default/a"],
        ApplyOutcome::Created
    );
}

#[tokio::test(start_paused = true)]
async fn a_field_that_leaves_the_manifest_leaves_the_object() {
    let bed = Bed::new();
    bed.applied(&[config_map("a", &json!({"k": "v", "old": "x"}))])
        .await;
    assert_eq!(
        bed.applied(&[config_map("a", &json!({"k": "v"}))]).await["ConfigMap/default/a"],
        ApplyOutcome::Configured
    );
    assert_eq!(bed.read(CONFIG).await.unwrap()["data"], json!({"k": "v"}));
}

/// Equal content is not enough: a field that we do not own would stay when it is removed from the manifest.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_there_already_is_taken_into_ownership() {
    let bed = Bed::new();
    let mut theirs = config_map("a", &json!({"k": "v"}));
    theirs["metadata"]["labels"] =
        json!({"kustomize.toolkit.fluxcd.io/name": "app", "kustomize.toolkit.fluxcd.io/namespace": "flux"});
    bed.send("POST", "/api/v1/namespaces/default/configmaps", Some(theirs))
        .await
        .unwrap();
    let wanted = [config_map("a", &json!({"k": "v"}))];
    assert_eq!(
        bed.applied(&wanted).await["ConfigMap/default/a"],
        ApplyOutcome::Configured
    );
    assert_eq!(
        bed.applied(&wanted).await["ConfigMap/default/a"],
        ApplyOutcome::Unchanged
    );
}
