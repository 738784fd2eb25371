//! JSON, merge and strategic merge patches.

use serde_json::json;

use crate::harness::{Cx, JSON_PATCH, STRATEGIC};

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
async fn a_merge_patch_of_an_absent_object_names_it() {
    let cx = Cx::new().await;
    let reply = cx.merge(&format!("{}/nope", cx.cm()), &json!({})).await;
    reply.refuses(404, "NotFound", "configmaps \"nope\" not found");
    assert_eq!(reply.body["details"]["name"], "nope");
}

#[tokio::test]
async fn a_merge_patch_that_changes_nothing_writes_nothing() {
    let cx = Cx::new().await;
    let widgets = cx.widgets().await;
    let made = cx
        .post(&widgets.path, &widgets.object("a", &json!({"num": 1})))
        .await
        .is(201);
    let same = cx
        .merge(
            &format!("{}?fieldManager=m", widgets.at("a")),
            &json!({"spec": {"num": 1}}),
        )
        .await
        .is(200);
    assert_eq!(same, made);
    assert_eq!(cx.merge(&widgets.at("a"), &json!({})).await.is(200), made);
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
async fn a_json_patch_that_adds_a_list_map_item_twice_is_a_duplicate() {
    let cx = Cx::new().await;
    let widgets = cx.widgets().await;
    cx.post(
        &widgets.path,
        &widgets.object("a", &json!({"items": [{"name": "i"}]})),
    )
    .await
    .is(201);
    let patch = json!([{"op": "add", "path": "/spec/items/-", "value": {"name": "i"}}]);
    let reply = cx.patch(JSON_PATCH, &widgets.at("a"), &patch).await;
    reply
        .refuses(422, "Invalid", "Duplicate value")
        .causes(&["FieldValueDuplicate spec.items[1]: Duplicate value: {\"name\":\"i\"}"]);
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

#[tokio::test]
async fn a_strategic_patch_of_a_custom_resource_is_not_supported() {
    let cx = Cx::new().await;
    let widgets = cx.widgets().await;
    cx.post(&widgets.path, &widgets.object("a", &json!({})))
        .await
        .is(201);
    let reply = cx
        .patch(STRATEGIC, &widgets.at("a"), &json!({"spec": {"num": 1}}))
        .await;
    assert_eq!(
        (reply.code, reply.reason()),
        (415, "UnsupportedMediaType"),
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn an_unknown_patch_type_is_not_supported() {
    let cx = Cx::new().await;
    cx.new_cm("a").await;
    let reply = cx
        .patch("application/x-odd", &format!("{}/a", cx.cm()), &json!({}))
        .await;
    assert_eq!(
        (reply.code, reply.reason()),
        (415, "UnsupportedMediaType"),
        "{}",
        reply.text
    );
}
