//! The status subresource.

use serde_json::json;

use crate::harness::{Cx, generation, owners, rv, widgets};

#[tokio::test]
async fn status_writes_only_status() {
    let (cx, widgets) = widgets().await;
    let made = widgets.apply("x", &json!({"num": 1})).await.is(201);
    let path = format!("{}/status?fieldManager=s", widgets.at("a"));
    let patch = json!({"status": {"note": "hi"}, "spec": {"num": 9}, "metadata": {"labels": {"l": "1"}}});
    let written = cx.merge(&path, &patch).await.is(200);
    assert_eq!(
        (&written["status"], &written["spec"]),
        (&json!({"note": "hi"}), &json!({"num": 1}))
    );
    assert_eq!(written["metadata"].get("labels"), None);
    assert_ne!(rv(&written), rv(&made));
    assert_eq!(generation(&written), 1);
    let mut owners = owners(&written);
    owners.sort();
    assert_eq!(
        owners,
        [
            r#"s Update status {"f:status":{".":{},"f:note":{}}}"#,
            r#"x Apply - {"f:spec":{"f:num":{}}}"#,
        ]
    );
    assert_eq!(cx.merge(&path, &patch).await.is(200), written);
}

#[tokio::test]
async fn the_main_resource_drops_status() {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.object("a", &json!({"num": 1}));
    object["status"] = json!({"note": "hi"});
    let made = cx.post(&widgets.path, &object).await.is(201);
    assert_eq!(made.get("status"), None);
    let patched = widgets.merge(&json!({"status": {"note": "hi"}})).await.is(200);
    assert_eq!(patched, made);
}

#[tokio::test]
async fn an_apply_of_status_to_the_main_resource_owns_and_changes_nothing() {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.object("a", &json!({"num": 1}));
    let made = cx.apply("x", &widgets.at("a"), &object).await.is(201);
    object["status"] = json!({"note": "hi"});
    assert_eq!(cx.apply("x", &widgets.at("a"), &object).await.is(200), made);
}

#[tokio::test]
async fn status_can_be_applied_and_has_its_own_entry() {
    let (cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"num": 1})).await.is(201);
    let mut object = widgets.object("a", &json!({"num": 7}));
    object["status"] = json!({"note": "hi"});
    let written = cx
        .apply("x", &format!("{}/status", widgets.at("a")), &object)
        .await
        .is(200);
    assert_eq!(
        (&written["status"], &written["spec"]),
        (&json!({"note": "hi"}), &json!({"num": 1}))
    );
    let mut owners = owners(&written);
    owners.sort();
    assert_eq!(
        owners,
        [
            r#"x Apply - {"f:spec":{"f:num":{}}}"#,
            r#"x Apply status {"f:status":{"f:note":{}}}"#
        ]
    );
}

#[tokio::test]
async fn a_put_of_status_replaces_it() {
    let (cx, widgets) = widgets().await;
    let mut object = widgets.post("a", &json!({"num": 1})).await.is(201);
    object["status"] = json!({"note": "one"});
    object["spec"]["num"] = json!(2);
    let written = cx
        .put(&format!("{}/status", widgets.at("a")), &object)
        .await
        .is(200);
    assert_eq!(
        (&written["status"], &written["spec"]),
        (&json!({"note": "one"}), &json!({"num": 1}))
    );
    assert_eq!(
        cx.get(&format!("{}/status", widgets.at("a"))).await.is(200),
        written
    );
    cx.put(&format!("{}/status", widgets.at("a")), &object)
        .await
        .refuses(409, "Conflict", "the object has been modified");
}

#[tokio::test]
async fn a_kind_without_the_subresource_writes_status_like_anything_else() {
    let cx = Cx::new().await;
    let widgets = cx
        .crd(
            "widgets",
            &crate::harness::widget_schema(),
            &json!({"subresources": {}}),
        )
        .await;
    let mut object = widgets.object("a", &json!({}));
    object["status"] = json!({"note": "hi"});
    let made = cx.post(&widgets.path, &object).await.is(201);
    assert_eq!(made["status"]["note"], "hi");
    let patched = widgets.merge(&json!({"status": {"note": "ho"}})).await.is(200);
    assert_eq!(generation(&patched), 2);
    assert_eq!(
        cx.merge(&format!("{}/status", widgets.at("a")), &json!({}))
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn deployments_have_a_status_subresource() {
    let cx = Cx::new().await;
    let body = json!({
        "metadata": {"name": "a"},
        "spec": {"replicas": 0, "paused": true, "selector": {"matchLabels": {"app": "a"}}, "template": {
            "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    });
    cx.post(&cx.deployments(), &body).await.is(201);
    let condition = json!({"type": "Odd", "status": "True", "reason": "R", "message": "m"});
    let path = format!("{}/a/status", cx.deployments());
    let written = cx
        .merge(
            &path,
            &json!({"status": {"conditions": [condition]}, "spec": {"replicas": 3}}),
        )
        .await
        .is(200);
    assert_eq!(written["spec"]["replicas"], 0);
    let kinds: Vec<_> = written["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["type"])
        .collect();
    assert!(kinds.contains(&&json!("Odd")), "{kinds:?}");
}

#[tokio::test]
async fn a_wrong_status_is_named_below_status() {
    let cx = Cx::new().await;
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}},
    }});
    let widgets = cx.crd("widgets", &schema, &json!({})).await;
    widgets.post("a", &json!({})).await.is(201);
    let reply = cx
        .merge(
            &format!("{}/status", widgets.at("a")),
            &json!({"status": {"n": 4}}),
        )
        .await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueInvalid status.n: Invalid value: 4: n in body should be less than or equal to 3",
    ]);
}
