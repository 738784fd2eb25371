//! JSON, merge and strategic merge patches.

use serde_json::json;

use crate::harness::{Cx, JSON_PATCH, STRATEGIC, widgets};

fn deployment() -> serde_json::Value {
    json!({
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [
                    {"name": "one", "image": "one:1", "env": [{"name": "A", "value": "1"}]},
                    {"name": "two", "image": "two:1"},
                ]},
            },
        },
    })
}

#[tokio::test]
async fn a_merge_patch_removes_with_null() {
    let cx = Cx::new().await;
    cx.post(
        &cx.cm(),
        &json!({"metadata": {"name": "a"}, "data": {"a": "1", "b": "2"}}),
    )
    .await
    .is(201);
    let patched = cx
        .merge(&format!("{}/a", cx.cm()), &json!({"data": {"a": null, "c": "3"}}))
        .await
        .is(200);
    assert_eq!(patched["data"], json!({"b": "2", "c": "3"}));
}

#[tokio::test]
async fn a_merge_patch_that_changes_nothing_writes_nothing() {
    let (cx, widgets) = widgets().await;
    let made = widgets.post("a", &json!({"num": 1})).await.is(201);
    let same = cx
        .merge(
            &format!("{}?fieldManager=m", widgets.at("a")),
            &json!({"spec": {"num": 1}}),
        )
        .await
        .is(200);
    assert_eq!(same, made);
    assert_eq!(widgets.merge(&json!({})).await.is(200), made);
}

#[tokio::test]
async fn a_json_patch_adds_replaces_and_removes() {
    let cx = Cx::new().await;
    cx.new_cm("a").await;
    let patch = json!([
        {"op": "add", "path": "/data/n", "value": "1"},
        {"op": "remove", "path": "/data/k"},
        {"op": "add", "path": "/metadata/labels", "value": {"l": "1"}},
    ]);
    let patched = cx
        .patch(JSON_PATCH, &format!("{}/a", cx.cm()), &patch)
        .await
        .is(200);
    assert_eq!(
        (&patched["data"], &patched["metadata"]["labels"]),
        (&json!({"n": "1"}), &json!({"l": "1"}))
    );
}

#[tokio::test]
async fn a_strategic_patch_merges_containers_by_name() {
    let cx = Cx::new().await;
    cx.post(&cx.deployments(), &deployment()).await.is(201);
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "two", "image": "two:2"},
    ]}}}});
    let patched = cx
        .patch(STRATEGIC, &format!("{}/a", cx.deployments()), &patch)
        .await
        .is(200);
    let containers = &patched["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        (&containers[0]["image"], &containers[1]["image"]),
        (&json!("one:1"), &json!("two:2"))
    );
}

#[tokio::test]
async fn a_strategic_patch_deletes_and_orders_by_directive() {
    let cx = Cx::new().await;
    cx.post(&cx.deployments(), &deployment()).await.is(201);
    let path = format!("{}/a", cx.deployments());
    let patch = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "two"}, {"name": "one"}],
        "containers": [{"name": "one", "env": [{"name": "A", "$patch": "delete"}, {"name": "B", "value": "2"}]}],
    }}}});
    let patched = cx.patch(STRATEGIC, &path, &patch).await.is(200);
    let containers = patched["spec"]["template"]["spec"]["containers"].clone();
    assert_eq!(
        (&containers[0]["name"], &containers[1]["name"]),
        (&json!("two"), &json!("one"))
    );
    assert_eq!(containers[1]["env"], json!([{"name": "B", "value": "2"}]));
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "one", "$patch": "delete"}]}}}});
    let patched = cx.patch(STRATEGIC, &path, &patch).await.is(200);
    assert_eq!(
        patched["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
