//! Namespaces.

use serde_json::json;

use crate::harness::{Cx, widgets};

#[tokio::test]
async fn a_namespace_is_active_and_has_its_basics() {
    let cx = Cx::new().await;
    let namespace = cx.get(&format!("/api/v1/namespaces/{}", cx.ns)).await.is(200);
    assert_eq!(namespace["status"]["phase"], "Active");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        namespace["metadata"]["labels"]["kubernetes.io/metadata.name"],
        cx.ns.as_str()
    );
    for path in [
        format!("{}/default", cx.core("serviceaccounts")),
        format!("{}/kube-root-ca.crt", cx.cm()),
    ] {
        cx.until(&path, || async { cx.get(&path).await.code == 200 })
            .await;
    }
}

#[tokio::test]
async fn nothing_is_created_in_a_missing_namespace() {
    let cx = Cx::new().await;
    let reply = cx
        .post(
            "/api/v1/namespaces/nope/configmaps",
            &json!({"metadata": {"name": "a"}}),
        )
        .await;
    reply.refuses(404, "NotFound", "namespaces \"nope\" not found");
    assert_eq!(
        reply.body["details"],
        json!({"name": "nope", "kind": "namespaces"})
    );
    assert_eq!(
        cx.get("/api/v1/namespaces/nope/configmaps").await.is(200)["items"],
        json!([])
    );
}

#[tokio::test]
async fn a_deleted_namespace_takes_its_content_with_it() {
    let cx = Cx::new().await;
    cx.new_cm("a").await;
    let path = format!("/api/v1/namespaces/{}", cx.ns);
    let deleted = cx.delete(&path).await.is(200);
    assert_eq!(deleted["status"]["phase"], "Terminating");
    cx.until_gone(&path).await;
    cx.get(&format!("{}/a", cx.cm()))
        .await
        .refuses(404, "NotFound", "");
}

#[tokio::test]
async fn a_terminating_namespace_waits_for_finalizers_and_says_so() {
    let cx = Cx::new().await;
    cx.post(
        &cx.cm(),
        &json!({"metadata": {"name": "a", "finalizers": ["e.example/hold"]}}),
    )
    .await
    .is(201);
    let path = format!("/api/v1/namespaces/{}", cx.ns);
    cx.delete(&path).await.is(200);
    cx.until("the namespace says what remains", || async {
        let conditions = cx.get(&path).await.is(200)["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]
            .iter()
            .all(|kind| {
                conditions
                    .iter()
                    .any(|condition| condition["type"] == *kind && condition["status"] == "True")
            })
    })
    .await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    for reply in [
        cx.post(&cx.cm(), &body).await,
        cx.apply("x", &format!("{}/b", cx.cm()), &body).await,
    ] {
        reply.refuses(403, "Forbidden", "because it is being terminated");
        let cause = &reply.body["details"]["causes"][0];
        assert_eq!(
            (&cause["reason"], &cause["field"]),
            (&json!("NamespaceTerminating"), &json!("metadata.namespace"))
        );
    }
    cx.merge(
        &format!("{}/a", cx.cm()),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await
    .is(200);
    cx.until_gone(&path).await;
}

#[tokio::test]
async fn the_default_namespaces_are_there() {
    let cx = Cx::new().await;
    for name in ["default", "kube-system"] {
        cx.until(name, || async {
            cx.get(&format!("/api/v1/namespaces/{name}")).await.code == 200
        })
        .await;
    }
}

#[tokio::test]
async fn a_deleted_namespace_takes_workloads_and_custom_resources_too() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let deployment = json!({
        "metadata": {"name": "a"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": {
            "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    });
    cx.post(&cx.deployments(), &deployment).await.is(201);
    let path = format!("/api/v1/namespaces/{}", cx.ns);
    cx.delete(&path).await.is(200);
    cx.until_gone(&path).await;
    for gone in [widgets.at("a"), format!("{}/a", cx.deployments())] {
        cx.get(&gone).await.refuses(404, "NotFound", "\"a\" not found");
    }
    for empty in [cx.core("pods"), cx.cm()] {
        assert_eq!(cx.get(&empty).await.is(200)["items"], json!([]), "{empty}");
    }
}
