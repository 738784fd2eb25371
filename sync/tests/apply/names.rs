//! Whatever characters a name contains, it never refers to another object.

use muster_sync::{apply, inventory::ObjectId};
use serde_json::{Value, json};

use crate::support::{Bed, config_map, namespace};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn role(name: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": []})
}

fn id(namespace: &str, name: &str, group: &str, kind: &str) -> (ObjectId, String) {
    let id = ObjectId {
        namespace: namespace.into(),
        name: name.into(),
        group: group.into(),
        kind: kind.into(),
    };
    (id, "v1".into())
}

/// Inventories of earlier releases contain them: they were recorded before the API server refused them.
#[tokio::test(start_paused = true)]
async fn what_an_inventory_names_is_no_other_object() {
    let bed = Bed::new();
    bed.applied(&[config_map("settings", &json!({})), role("reader"), namespace("x")])
        .await;
    bed.api.recorder().clear();
    let names = [
        id("default", "settings?v=2", "", "ConfigMap"),
        id("default", "settings#2", "", "ConfigMap"),
        id("default", "settings/", "", "ConfigMap"),
        id("default", "../configmaps/settings", "", "ConfigMap"),
        id("default", "%73ettings", "", "ConfigMap"),
        id("default/configmaps/settings?", "a", "", "ConfigMap"),
        id("", "reader#2", "rbac.authorization.k8s.io", "ClusterRole"),
        id("", "x#blue", "", "Namespace"),
        id("", "..", "", "Namespace"),
    ];
    let pruned = apply::prune(&bed.cluster, &bed.options.owner, &names, &apply::Alone).await;
    assert_eq!(pruned.failures, []);
    assert_eq!(pruned.gone.len(), names.len(), "{pruned:?}");
    assert_eq!(bed.writes(), Vec::<String>::new());
    for path in [
        "/api/v1/namespaces/default/configmaps/settings".to_owned(),
        format!("{ROLES}/reader"),
        "/api/v1/namespaces/x".to_owned(),
    ] {
        let live = bed.read(&path).await.unwrap();
        assert_eq!(live["metadata"]["deletionTimestamp"], Value::Null, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_with_a_blank_is_applied_changed_and_pruned() {
    let bed = Bed::new();
    bed.applied(&[role("my role")]).await;
    let mut more = role("my role");
    more["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    bed.applied(&[more.clone()]).await;
    let live = bed.read(&format!("{ROLES}/my%20role")).await.unwrap();
    assert_eq!(live["rules"], more["rules"]);
    let pruned = bed.prune(&[]).await;
    assert!(pruned.is_complete(), "{pruned:?}");
    assert_eq!(bed.read(&format!("{ROLES}/my%20role")).await, None);
}

/// A build refuses them with file and line; here they are not recorded.
#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_is_not_recorded() {
    let bed = Bed::new();
    let strange = json!({"apiVersion": "v1/../..", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    let mut elsewhere = config_map("a", &json!({}));
    elsewhere["metadata"]["namespace"] = "default/pods".into();
    let plan = bed
        .plan(&[
            config_map("settings?v=2", &json!({})),
            role(".."),
            role("ops__reader"),
            elsewhere,
            strange,
            config_map("good", &json!({})),
        ])
        .await;
    let recorded: Vec<String> = plan.inventory().iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(recorded, ["ConfigMap/default/good"]);
    let error = apply::run(&bed.cluster, &plan, &bed.ledger, &apply::Alone)
        .await
        .unwrap_err();
    insta::assert_snapshot!(error);
    assert_eq!(bed.ledger.recorded.lock().len(), 1);
}

/// Earlier releases applied `ops__reader` and recorded it as `ops:reader`.
#[tokio::test(start_paused = true)]
async fn what_was_recorded_under_another_name_is_found_by_its_labels() {
    let bed = Bed::new();
    let labels =
        json!({"kustomize.toolkit.fluxcd.io/name": "app", "kustomize.toolkit.fluxcd.io/namespace": "flux"});
    for (name, labels) in [("ops__reader", labels), ("ops__writer", json!({}))] {
        let mut object = role(name);
        object["metadata"]["labels"] = labels;
        bed.create_as("muster", ROLES, &object).await;
    }
    let ids =
        ["ops:reader", "ops:writer"].map(|name| id("", name, "rbac.authorization.k8s.io", "ClusterRole"));
    let pruned = apply::prune(&bed.cluster, &bed.options.owner, &ids, &apply::Alone).await;
    assert!(pruned.is_complete(), "{pruned:?}");
    assert_eq!(bed.read(&format!("{ROLES}/ops__reader")).await, None);
    assert!(bed.read(&format!("{ROLES}/ops__writer")).await.is_some());
}
