//! The remaining fields of the spec: each does what its name says.

use serde_json::json;

use crate::support::{
    Bed, condition, config, config_yaml, deployment, deployment_yaml, done, ids, kustomization, message,
};

#[tokio::test(start_paused = true)]
async fn target_namespace_takes_all_that_has_a_namespace() {
    let bed = Bed::new();
    bed.create("/api/v1/namespaces", json!({"metadata": {"name": "team"}}))
        .await;
    let class =
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\nrules: []\n";
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x")), ("app/r.yaml", class)]);
    bed.deploy(json!({"targetNamespace": "team"})).await;
    let object = bed.until_at("app", &commit).await;
    assert!(bed.read(&config("a")).await.is_none());
    assert!(bed.read("/api/v1/namespaces/team/configmaps/a").await.is_some());
    assert_eq!(
        ids(&object),
        ["_r_rbac.authorization.k8s.io_ClusterRole", "team_a__ConfigMap"]
    );

    // Another target namespace: the objects move, and the previous ones are pruned.
    bed.edit(
        &kustomization("app"),
        json!({"spec": {"targetNamespace": "default"}}),
    )
    .await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert!(bed.read(&config("a")).await.is_some());
    assert!(bed.read("/api/v1/namespaces/team/configmaps/a").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn force_recreates_objects_with_immutable_fields() {
    let bed = Bed::new();
    let other = deployment_yaml("d", "nginx").replace("app: d", "app: other");
    let first = bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx"))]);
    bed.deploy(json!({"wait": false})).await;
    bed.until_at("app", &first).await;
    let before = bed.deployed().await;
    let second = bed.commit(&[("app/d.yaml", &other)]);
    let object = bed.until_ready("app", "False ReconciliationFailed").await;
    assert!(
        message(&object, "Ready").contains("spec.selector cannot be changed: set spec.force"),
        "{object:#}"
    );
    assert_eq!(bed.deployed().await, before);
    bed.edit(&kustomization("app"), json!({"spec": {"force": true}}))
        .await;
    bed.until_at("app", &second).await;
    let object = bed.read(&deployment("d")).await.unwrap();
    assert_eq!(object["spec"]["selector"]["matchLabels"]["app"], "other");
}

/// An object whose author opted out of reconciling is not waited for either: it may be unhealthy for reasons of its
/// own.
#[tokio::test(start_paused = true)]
async fn what_is_left_alone_is_not_waited_for() {
    for annotation in ["reconcile: disabled", "ssa: Ignore", "ssa: IfNotPresent"] {
        let bed = Bed::new();
        let (key, value) = annotation.split_once(": ").unwrap();
        let annotations = format!("name: d, annotations: {{kustomize.toolkit.fluxcd.io/{key}: {value}}}");
        let text = deployment_yaml("d", "nginx").replacen("name: d", &annotations, 1);
        let live = json!({"metadata": {"name": "d", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]}}}});
        bed.create("/apis/apps/v1/namespaces/default/deployments", live)
            .await;
        let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "x")), ("app/d.yaml", &text)]);
        bed.deploy(json!({})).await;
        bed.until_at("app", &commit).await;
    }
}

/// Named objects count even if they are not its own, and a missing one is waited for.
#[tokio::test(start_paused = true)]
async fn health_checks_may_name_objects_of_others() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "x")),
        ("other/d.yaml", &deployment_yaml("d", "nginx")),
    ]);
    let checks =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "namespace": "default"}]);
    bed.deploy(json!({"wait": false, "healthChecks": checks, "timeout": "1h", "interval": "2h"}))
        .await;
    let object = bed
        .until(&kustomization("app"), |object| {
            message(object, "Reconciling").contains("Deployment/default/d")
        })
        .await;
    assert!(
        message(&object, "Reconciling")
            .ends_with("Deployment/default/d status: 'NotFound': Resource not found"),
        "{object:#}"
    );
    bed.kustomization("other", json!({"wait": false})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    let object = bed.until_at("app", &commit).await;
    assert_eq!(condition(&object, "Healthy").unwrap()["status"], "True");
}

/// Without a path everything in the source is applied.
#[tokio::test(start_paused = true)]
async fn the_path_is_below_the_root() {
    for (path, expect) in [
        (json!(null), 2),
        (json!("./"), 2),
        (json!("/app"), 1),
        (json!("./app/"), 1),
    ] {
        let bed = Bed::new();
        let commit = bed.commit(&[
            ("app/a.yaml", &config_yaml("a", "x")),
            ("b.yaml", &config_yaml("b", "x")),
        ]);
        bed.deploy(json!({"path": path})).await;
        let object = bed.until_at("app", &commit).await;
        assert_eq!(ids(&object).len(), expect, "{path}");
    }
}
