//! Options set by annotations are honored.

use muster_sync::apply::ApplyOutcome;
use serde_json::{Value, json};

use crate::support::{Bed, config_map};

const PATH: &str = "/api/v1/namespaces/default/configmaps/a";

fn asking(key: &str, value: &str, data: &Value) -> Value {
    let mut object = config_map("a", data);
    object["metadata"]["annotations"] = json!({format!("kustomize.toolkit.fluxcd.io/{key}"): value});
    object
}

#[tokio::test(start_paused = true)]
async fn hands_off_means_hands_off() {
    for (key, value) in [
        ("ssa", "Ignore"),
        ("reconcile", "disabled"),
        ("ssa", "ignore"),
        ("reconcile", "Disabled"),
    ] {
        let bed = Bed::new();
        let outcomes = bed.applied(&[asking(key, value, &json!({"k": "v"}))]).await;
        assert_eq!(
            outcomes["ConfigMap/default/a"],
            ApplyOutcome::Skipped,
            "{key}: {value}"
        );
        assert!(bed.read(PATH).await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_object_may_say_so_too() {
    let bed = Bed::new();
    bed.applied(&[config_map("a", &json!({"k": "v"}))]).await;
    let annotation = json!({"kustomize.toolkit.fluxcd.io/reconcile": "disabled"});
    bed.edit(
        PATH,
        json!({"metadata": {"annotations": annotation}, "data": {"k": "mine"}}),
    )
    .await;
    assert_eq!(
        bed.applied(&[config_map("a", &json!({"k": "v"}))]).await["ConfigMap/default/a"],
        ApplyOutcome::Skipped
    );
    assert_eq!(bed.read(PATH).await.unwrap()["data"]["k"], "mine");
}

#[tokio::test(start_paused = true)]
async fn if_not_present_is_created_and_never_changed() {
    let bed = Bed::new();
    let wanted = |value: &str| [asking("ssa", "IfNotPresent", &json!({"k": value}))];
    assert_eq!(
        bed.applied(&wanted("v")).await["ConfigMap/default/a"],
        ApplyOutcome::Created
    );
    assert_eq!(
        bed.applied(&wanted("w")).await["ConfigMap/default/a"],
        ApplyOutcome::Skipped
    );
    assert_eq!(bed.read(PATH).await.unwrap()["data"]["k"], "v");
}

/// In labels as well as in annotations, as in Flux.
#[tokio::test(start_paused = true)]
async fn a_label_says_as_much_as_an_annotation() {
    let bed = Bed::new();
    let mut object = config_map("a", &json!({}));
    object["metadata"]["labels"] = json!({"kustomize.toolkit.fluxcd.io/reconcile": "disabled"});
    assert_eq!(
        bed.applied(&[object]).await["ConfigMap/default/a"],
        ApplyOutcome::Skipped
    );
}
