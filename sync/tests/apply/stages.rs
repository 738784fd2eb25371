//! What others need comes first, and ids are on record before objects are created.

use muster_sync::apply::Outcome;
use serde_json::{Value, json};

use crate::support::{Bed, config_map, namespace, widget, widget_definition};

#[tokio::test(start_paused = true)]
async fn namespaces_and_definitions_come_first_whatever_the_order() {
    let bed = Bed::new();
    let mut inside = config_map("inside", &json!({"a": "b"}));
    inside["metadata"]["namespace"] = json!("made");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let outcomes = bed
        .applied(&[
            widget("w", 3),
            inside,
            role,
            widget_definition("Namespaced"),
            namespace("made"),
        ])
        .await;
    assert!(
        outcomes.values().all(|outcome| *outcome == Outcome::Created),
        "{outcomes:?}"
    );
    assert_eq!(
        bed.writes(),
        [
            "PATCH /api/v1/namespaces/made",
            "PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org",
            "PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/reader",
            "PATCH /api/v1/namespaces/made/configmaps/inside",
            "PATCH /apis/example.org/v1/namespaces/default/widgets/w",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn scope_is_the_servers_and_not_the_texts() {
    let bed = Bed::new();
    let mut cluster_wide = namespace("made");
    cluster_wide["metadata"]["namespace"] = json!("nonsense");
    bed.applied(&[cluster_wide, widget_definition("Cluster"), widget("w", 1)])
        .await;
    assert!(bed.read("/apis/example.org/v1/widgets/w").await.is_some());
    let ids: Vec<String> = bed
        .ledger
        .recorded
        .lock()
        .iter()
        .map(|(id, _)| id.encode())
        .collect();
    assert_eq!(
        ids,
        [
            "_made__Namespace",
            "_w_example.org_Widget",
            "_widgets.example.org_apiextensions.k8s.io_CustomResourceDefinition"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_target_namespace_overrules() {
    let mut bed = Bed::new();
    bed.options.target_namespace = Some("elsewhere".into());
    let mut homeless = config_map("homeless", &json!({}));
    homeless["metadata"].as_object_mut().unwrap().remove("namespace");
    bed.applied(&[namespace("elsewhere"), config_map("moved", &json!({})), homeless])
        .await;
    for name in ["moved", "homeless"] {
        assert!(
            bed.read(&format!("/api/v1/namespaces/elsewhere/configmaps/{name}"))
                .await
                .is_some(),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_that_is_not_on_record() {
    let bed = Bed::new();
    *bed.ledger.refuses.lock() = true;
    let error = bed.apply(&[config_map("a", &json!({}))]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the inventory cannot be written, so nothing is applied: no"
    );
    assert_eq!(bed.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn every_object_carries_the_labels_of_its_owner() {
    let bed = Bed::new();
    let mut own = config_map("a", &json!({}));
    own["metadata"]["labels"] = json!({"mine": "too"});
    bed.applied(&[own]).await;
    let live: Value = bed.read("/api/v1/namespaces/default/configmaps/a").await.unwrap();
    assert_eq!(
        live["metadata"]["labels"],
        json!({"mine": "too", "kustomize.toolkit.fluxcd.io/name": "app", "kustomize.toolkit.fluxcd.io/namespace": "flux"})
    );
}
