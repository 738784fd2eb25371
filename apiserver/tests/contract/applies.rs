//! Server-side apply: ownership, conflicts, force, no-op applies.

use serde_json::{Value, json};

use crate::harness::{APPLY, Cx, generation, owners, rv, widgets};

#[tokio::test]
async fn apply_creates_and_then_updates() {
    let (_cx, widgets) = widgets().await;
    let made = widgets.apply("x", &json!({"num": 1})).await.is(201);
    assert_eq!((generation(&made), &made["spec"]), (1, &json!({"num": 1})));
    let changed = widgets.apply("x", &json!({"num": 2})).await.is(200);
    assert_eq!((generation(&changed), &changed["spec"]), (2, &json!({"num": 2})));
    assert_eq!(owners(&changed), [r#"x Apply - {"f:spec":{"f:num":{}}}"#]);
}

#[tokio::test]
async fn apply_in_yaml() {
    let (cx, widgets) = widgets().await;
    let body = format!(
        "apiVersion: {}\nkind: Widget\nmetadata:\n  name: a\nspec:\n  num: 3\n",
        widgets.api_version
    );
    let path = format!("{}?fieldManager=x", widgets.at("a"));
    let reply = cx
        .send(http::Method::PATCH, &path, &[("content-type", APPLY)], Some(body))
        .await;
    assert_eq!(reply.is(201)["spec"], json!({"num": 3}));
}

#[tokio::test]
async fn the_same_apply_changes_nothing() {
    let (_cx, widgets) = widgets().await;
    let made = widgets.apply("x", &json!({"num": 1})).await.is(201);
    let again = widgets.apply("x", &json!({"num": 1})).await.is(200);
    assert_eq!(again, made);
}

#[tokio::test]
async fn a_second_manager_of_the_same_values_gets_an_entry_without_time() {
    let (_cx, widgets) = widgets().await;
    let made = widgets.apply("x", &json!({"num": 1})).await.is(201);
    let shared = widgets.apply("y", &json!({"num": 1})).await.is(200);
    assert_ne!(rv(&shared), rv(&made));
    assert_eq!(generation(&shared), 1);
    let times: Vec<(Value, bool)> = shared["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["manager"].clone(), entry.get("time").is_some()))
        .collect();
    assert_eq!(times, [(json!("y"), false), (json!("x"), true)]);
    assert_eq!(widgets.get().await.is(200), shared);
    let again = widgets.apply("y", &json!({"num": 1})).await.is(200);
    assert_eq!(again, shared);
}

#[tokio::test]
async fn a_conflict_names_the_manager_and_the_field() {
    let (_cx, widgets) = widgets().await;
    let made = widgets.apply("x", &json!({"num": 1})).await.is(201);
    let reply = widgets.apply("y", &json!({"num": 2})).await;
    reply.refuses(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"x\": .spec.num",
    );
    reply.causes(&["FieldManagerConflict .spec.num: conflict with \"x\""]);
    assert_eq!(widgets.get().await.is(200), made);
}

#[tokio::test]
async fn several_conflicts_are_listed_by_manager() {
    let (_cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"num": 1, "flag": true})).await.is(201);
    widgets.apply("y", &json!({"order": ["1"]})).await.is(200);
    let reply = widgets
        .apply("z", &json!({"num": 2, "flag": false, "order": []}))
        .await;
    reply.refuses(409, "Conflict", "Apply failed with 3 conflicts: conflicts with \"x\":\n- .spec.flag\n- .spec.num\nconflicts with \"y\":\n- .spec.order");
}

#[tokio::test]
async fn force_takes_the_field() {
    let (cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"num": 1, "flag": true})).await.is(201);
    let path = format!("{}?force=true", widgets.at("a"));
    let forced = cx
        .apply("y", &path, &widgets.object("a", &json!({"num": 2})))
        .await
        .is(200);
    assert_eq!(forced["spec"], json!({"num": 2, "flag": true}));
    let mut owners = owners(&forced);
    owners.sort();
    assert_eq!(
        owners,
        [
            r#"x Apply - {"f:spec":{"f:flag":{}}}"#,
            r#"y Apply - {"f:spec":{"f:num":{}}}"#
        ]
    );
}

#[tokio::test]
async fn what_is_no_longer_applied_is_removed() {
    let (_cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"num": 1, "flag": true})).await.is(201);
    let left = widgets.apply("x", &json!({"num": 1})).await.is(200);
    assert_eq!(left["spec"], json!({"num": 1}));
}

#[tokio::test]
async fn what_another_manager_owns_stays() {
    let (_cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"num": 1, "flag": true})).await.is(201);
    widgets.apply("y", &json!({"flag": true})).await.is(200);
    let left = widgets.apply("x", &json!({"num": 1})).await.is(200);
    assert_eq!(left["spec"], json!({"num": 1, "flag": true}));
    let gone = widgets.apply("y", &json!({})).await.is(200);
    assert_eq!(gone["spec"], json!({"num": 1}));
}

#[tokio::test]
async fn a_changing_patch_takes_the_field_from_every_applier() {
    let (cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"num": 1})).await.is(201);
    widgets.apply("y", &json!({"num": 1})).await.is(200);
    let patched = cx
        .merge(
            &format!("{}?fieldManager=m", widgets.at("a")),
            &json!({"spec": {"num": 2}}),
        )
        .await
        .is(200);
    assert_eq!(owners(&patched), [r#"m Update - {"f:spec":{"f:num":{}}}"#]);
    let reply = widgets.apply("x", &json!({"num": 1})).await;
    let text = format!("conflict with \"m\" using {}: .spec.num", widgets.api_version);
    reply.refuses(409, "Conflict", &text);
}

#[tokio::test]
async fn an_update_owns_what_it_sets() {
    let (cx, widgets) = widgets().await;
    let path = format!("{}?fieldManager=m", widgets.path);
    let mut object = widgets.object(
        "a",
        &json!({"num": 1, "items": [{"name": "i", "a": 1}], "tags": ["t"]}),
    );
    object["metadata"]["labels"] = json!({"l": "1"});
    let made = cx.post(&path, &object).await.is(201);
    assert_eq!(
        owners(&made),
        [concat!(
            r#"m Update - {"f:metadata":{"f:labels":{".":{},"f:l":{}}},"#,
            r#""f:spec":{".":{},"f:items":{".":{},"k:{\"name\":\"i\"}":{".":{},"f:a":{},"f:name":{}}},"#,
            r#""f:num":{},"f:tags":{".":{},"v:\"t\"":{}}}}"#,
        )]
    );
}

#[tokio::test]
async fn the_default_manager_of_an_update_is_the_user_agent() {
    let cx = Cx::new().await;
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "my-agent/1.2 (linux)"),
    ];
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}}).to_string();
    let made = cx
        .send(http::Method::POST, &cx.cm(), &headers, Some(body))
        .await
        .is(201);
    assert_eq!(
        owners(&made),
        [r#"my-agent Update - {"f:data":{".":{},"f:k":{}}}"#]
    );
}

#[tokio::test]
async fn a_dry_run_apply_shows_conflicts_and_results_and_keeps_nothing() {
    let (cx, widgets) = widgets().await;
    let path = format!("{}?dryRun=All", widgets.at("a"));
    let shown = cx
        .apply("x", &path, &widgets.object("a", &json!({"num": 1})))
        .await
        .is(201);
    assert_eq!(shown["spec"], json!({"num": 1}));
    widgets.get().await.refuses(404, "NotFound", "");
    let made = widgets.apply("x", &json!({"num": 1})).await.is(201);
    cx.apply("y", &path, &widgets.object("a", &json!({"num": 2})))
        .await
        .refuses(409, "Conflict", "Apply failed");
    let shown = cx
        .apply("x", &path, &widgets.object("a", &json!({"num": 2})))
        .await
        .is(200);
    assert_eq!(shown["spec"], json!({"num": 2}));
    assert_eq!(widgets.get().await.is(200), made);
}

#[tokio::test]
async fn managed_fields_may_not_be_applied() {
    let (cx, widgets) = widgets().await;
    let made = widgets.apply("x", &json!({"num": 1})).await.is(201);
    let reply = cx.apply("x", &widgets.at("a"), &made).await;
    reply.refuses(400, "BadRequest", "metadata.managedFields must be nil");
}

#[tokio::test]
async fn an_empty_list_of_managed_fields_resets_them() {
    let (_cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"num": 1})).await.is(201);
    let reset = widgets
        .merge(&json!({"metadata": {"managedFields": [{}]}}))
        .await
        .is(200);
    assert_eq!(reset["metadata"].get("managedFields"), None);
    let applied = widgets.apply("y", &json!({"num": 1})).await.is(200);
    let mut owners = owners(&applied);
    owners.sort();
    assert_eq!(
        owners,
        [
            r#"before-first-apply Update - {"f:spec":{".":{},"f:num":{}}}"#,
            r#"y Apply - {"f:spec":{"f:num":{}}}"#,
        ]
    );
}

#[tokio::test]
async fn validation_runs_after_an_apply_too() {
    let (_cx, widgets) = widgets().await;
    let reply = widgets.apply("x", &json!({"num": 11})).await;
    reply.refuses(422, "Invalid", "num must be at most 10");
    widgets.get().await.refuses(404, "NotFound", "");
}

#[tokio::test]
async fn an_apply_that_would_leave_an_empty_object_is_refused() {
    let (cx, widgets) = widgets().await;
    widgets.apply("x", &json!({"labels": {"a": "1"}})).await.is(201);
    let owner = format!("{}?fieldManager=m", widgets.at("a"));
    cx.merge(&owner, &json!({"spec": {"labels": null}})).await.is(200);
    cx.merge(&owner, &json!({"spec": {"labels": {}}})).await.is(200);
    widgets.apply("x", &json!({"labels": {"a": "1"}})).await.is(200);
    let reply = widgets.apply("x", &json!({})).await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueTypeInvalid spec.labels: Invalid value: \"null\": spec.labels in body must be of type object: \"null\"",
        concat!(
            "FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the object ",
            "was invalid; correct the existing errors to complete validation",
        ),
    ]);
}

#[tokio::test]
async fn empty_lists_and_maps_of_built_in_kinds_are_gone() {
    let cx = Cx::new().await;
    let path = format!("{}/a", cx.cm());
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}, "finalizers": []}, "data": {},
    });
    let made = cx.apply("x", &path, &body).await.is(201);
    assert_eq!(made.get("data"), None);
    assert_eq!(
        (made["metadata"].get("labels"), made["metadata"].get("finalizers")),
        (None, None)
    );
}
