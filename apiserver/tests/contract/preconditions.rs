//! uid and resourceVersion as preconditions.

use serde_json::json;

use crate::harness::{Cx, rv, uid, widgets};

const OTHER: &str = "00000000-0000-0000-0000-000000000000";

#[tokio::test]
async fn another_uid_is_immutable() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["uid"] = json!(OTHER);
    cx.apply("x", &widgets.at("a"), &object)
        .await
        .refuses(422, "Invalid", "metadata.uid: Invalid value");
    let reply = widgets.merge(&json!({"metadata": {"uid": OTHER}})).await;
    reply.refuses(422, "Invalid", "field is immutable");
}

#[tokio::test]
async fn another_uid_is_refused_with_the_same_cause_twice() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["uid"] = json!(OTHER);
    let cause = format!("FieldValueInvalid metadata.uid: Invalid value: \"{OTHER}\": field is immutable");
    cx.apply("x", &widgets.at("a"), &object)
        .await
        .causes(&[&cause, &cause]);
    widgets
        .merge(&json!({"metadata": {"uid": OTHER}}))
        .await
        .causes(&[&cause, &cause]);
}

#[tokio::test]
async fn apply_with_a_uid_on_an_absent_object_creates_nothing() {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["uid"] = json!(OTHER);
    let reply = cx.apply("x", &widgets.at("a"), &object).await;
    reply.refuses(
        409,
        "Conflict",
        &format!("uid mismatch: the provided object specified uid {OTHER}, and no existing object was found"),
    );
    widgets.get().await.refuses(404, "NotFound", "");
}

#[tokio::test]
async fn a_stale_version_is_a_conflict_without_causes() {
    let (cx, widgets) = widgets().await;
    let old = widgets.post("a", &json!({"num": 1})).await.is(201);
    widgets.merge(&json!({"spec": {"num": 2}})).await.is(200);
    let text = "the object has been modified; please apply your changes to the latest version and try again";
    let mut stale = old.clone();
    stale["spec"]["num"] = json!(3);
    let put = cx.put(&widgets.at("a"), &stale).await;
    put.refuses(409, "Conflict", text).causes(&[]);
    let merge = widgets
        .merge(&json!({"metadata": {"resourceVersion": rv(&old)}, "spec": {"num": 3}}))
        .await;
    merge.refuses(409, "Conflict", text).causes(&[]);
    let mut object = widgets.object("a", &json!({"num": 3}));
    object["metadata"]["resourceVersion"] = json!(rv(&old));
    cx.apply("x", &format!("{}?force=true", widgets.at("a")), &object)
        .await
        .refuses(409, "Conflict", text)
        .causes(&[]);
}

#[tokio::test]
async fn apply_with_a_version_on_an_absent_object_creates_it() {
    let cx = Cx::new().await;
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}});
    cx.apply("x", &format!("{}/a", cx.cm()), &body).await.is(201);
}

#[tokio::test]
async fn apply_with_a_version_on_an_absent_custom_resource_creates_it_too() {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.object("a", &json!({"num": 1}));
    object["metadata"]["resourceVersion"] = json!("1");
    let made = cx.apply("x", &widgets.at("a"), &object).await.is(201);
    assert_ne!(rv(&made), "1");
}

#[tokio::test]
async fn a_put_of_a_configmap_needs_no_version() {
    let cx = Cx::new().await;
    cx.new_cm("a").await;
    let put = cx
        .put(
            &format!("{}/a", cx.cm()),
            &json!({"metadata": {"name": "a"}, "data": {"k": "w"}}),
        )
        .await;
    assert_eq!(put.is(200)["data"]["k"], "w");
}

#[tokio::test]
async fn a_delete_holds_its_preconditions() {
    let cx = Cx::new().await;
    let cm = cx.new_cm("a").await;
    let path = format!("{}/a", cx.cm());
    let reply = cx
        .delete_with(&path, &json!({"preconditions": {"uid": OTHER}}))
        .await;
    reply.refuses(
        409,
        "Conflict",
        &format!(
            "the UID in the precondition ({OTHER}) does not match the UID in record ({})",
            uid(&cm)
        ),
    );
    let reply = cx
        .delete_with(&path, &json!({"preconditions": {"resourceVersion": "1"}}))
        .await;
    reply.refuses(
        409,
        "Conflict",
        "the ResourceVersion in the precondition (1) does not match",
    );
    cx.get(&path).await.is(200);
    cx.delete_with(
        &path,
        &json!({"preconditions": {"uid": uid(&cm), "resourceVersion": rv(&cm)}}),
    )
    .await
    .is(200);
}

#[tokio::test]
async fn a_json_patch_tests_before_it_writes() {
    let cx = Cx::new().await;
    let cm = cx.new_cm("a").await;
    let path = format!("{}/a", cx.cm());
    let patch = |value: &str| {
        json!([
            {"op": "test", "path": "/data/k", "value": value},
            {"op": "replace", "path": "/data/k", "value": "w"},
        ])
    };
    let reply = cx.patch(crate::harness::JSON_PATCH, &path, &patch("other")).await;
    reply
        .refuses(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .causes(&[]);
    assert_eq!(cx.get(&path).await.is(200), cm);
    let patched = cx
        .patch(crate::harness::JSON_PATCH, &path, &patch("v"))
        .await
        .is(200);
    assert_eq!(patched["data"]["k"], "w");
}
