//! Finalizers and deletion.

use serde_json::json;

use crate::harness::{Cx, Kind, generation, rv, widgets};

const HOLD: &str = "e.example/hold";

#[tokio::test]
async fn a_finalizer_holds_the_object() {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.object("a", &json!({"num": 1}));
    object["metadata"]["finalizers"] = json!([HOLD]);
    let made = cx.post(&widgets.path, &object).await.is(201);
    let deleted = widgets.delete().await.is(200);
    assert_eq!(deleted["kind"], "Widget");
    let held = widgets.get().await.is(200);
    assert!(
        held["metadata"]["deletionTimestamp"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!((generation(&made), generation(&held)), (1, 2));
    widgets.merge(&json!({"spec": {"num": 2}})).await.is(200);
    widgets
        .merge(&json!({"metadata": {"finalizers": []}}))
        .await
        .is(200);
    widgets.get().await.refuses(404, "NotFound", "");
}

/// Widget `a`, terminating with a finalizer.
async fn terminating() -> (Cx, Kind) {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["finalizers"] = json!([HOLD]);
    cx.post(&widgets.path, &object).await.is(201);
    widgets.delete().await.is(200);
    (cx, widgets)
}

#[tokio::test]
async fn a_second_delete_of_a_held_object_changes_nothing() {
    let (_cx, widgets) = terminating().await;
    let held = widgets.get().await.is(200);
    widgets.delete().await.is(200);
    assert_eq!(rv(&widgets.get().await.is(200)), rv(&held));
    widgets
        .merge(&json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
}

#[tokio::test]
async fn a_terminating_object_takes_no_new_finalizers() {
    let (_cx, widgets) = terminating().await;
    let reply = widgets
        .merge(&json!({"metadata": {"finalizers": [HOLD, "e.example/late"]}}))
        .await;
    reply.refuses(
        422,
        "Invalid",
        "no new finalizers can be added if the object is being deleted",
    );
    widgets
        .merge(&json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
}

#[tokio::test]
async fn a_terminating_name_is_taken() {
    let (_cx, widgets) = terminating().await;
    widgets
        .post("a", &json!({}))
        .await
        .refuses(409, "AlreadyExists", "object is being deleted");
    widgets
        .merge(&json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
}

#[tokio::test]
async fn a_watch_sees_the_deletion_begin_and_end() {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["finalizers"] = json!([HOLD]);
    let made = cx.post(&widgets.path, &object).await.is(201);
    let mut watch = widgets.watch_from(&cx, &made).await;
    widgets.delete().await.is(200);
    widgets
        .merge(&json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    assert_eq!(watch.lines().await, ["MODIFIED a", "DELETED a"]);
}

#[tokio::test]
async fn metadata_that_may_not_change() {
    let cx = Cx::new().await;
    cx.new_cm("a").await;
    let path = format!("{}/a", cx.cm());
    for (patch, expect) in [
        (json!({"metadata": {"name": "b"}}), "does not match"),
        (json!({"metadata": {"uid": "other"}}), "metadata.uid"),
    ] {
        let reply = cx.merge(&path, &patch).await;
        assert!(
            reply.code >= 400 && reply.message().contains(expect),
            "{} {}",
            reply.code,
            reply.text
        );
    }
    let patched = cx
        .merge(
            &path,
            &json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}),
        )
        .await;
    assert!(patched.code >= 400 || patched.body["metadata"]["creationTimestamp"] != "2001-01-01T00:00:00Z");
}

#[tokio::test]
async fn immutable_configmaps_stay() {
    let cx = Cx::new().await;
    cx.post(
        &cx.cm(),
        &json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "immutable": true}),
    )
    .await
    .is(201);
    let reply = cx
        .merge(&format!("{}/a", cx.cm()), &json!({"data": {"k": "w"}}))
        .await;
    reply.refuses(
        422,
        "Invalid",
        "data: Forbidden: field is immutable when `immutable` is set",
    );
}

#[tokio::test]
async fn the_selector_of_a_deployment_is_immutable() {
    let cx = Cx::new().await;
    let body = json!({
        "metadata": {"name": "a"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": {
            "metadata": {"labels": {"app": "a", "x": "y"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    });
    cx.post(&cx.deployments(), &body).await.is(201);
    let patch = json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}});
    let reply = cx.merge(&format!("{}/a", cx.deployments()), &patch).await;
    reply.refuses(422, "Invalid", "field is immutable");
}
