//! Watches: their events, the order, the start version, and how they end.

use serde_json::{Value, json};

use crate::harness::{Cx, rv, widgets};

#[tokio::test]
async fn without_a_version_it_begins_with_what_exists() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    widgets.post("b", &json!({})).await.is(201);
    let mut watch = cx.watch(&widgets.path).await;
    assert_eq!(watch.lines().await, ["ADDED a", "ADDED b"]);
    widgets.merge(&json!({"spec": {"num": 1}})).await.is(200);
    cx.delete(&widgets.at("b")).await.is(200);
    assert_eq!(watch.lines().await, ["MODIFIED a", "DELETED b"]);
}

#[tokio::test]
async fn version_zero_begins_with_what_exists_too() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let mut watch = cx.watch(&format!("{}?resourceVersion=0", widgets.path)).await;
    assert_eq!(watch.line().await, "ADDED a");
    widgets.merge(&json!({"spec": {"num": 1}})).await.is(200);
    assert_eq!(watch.line().await, "MODIFIED a");
}

#[tokio::test]
async fn from_a_version_it_sends_what_came_after() {
    let (cx, widgets) = widgets().await;
    let first = widgets.post("a", &json!({})).await.is(201);
    widgets.post("b", &json!({})).await.is(201);
    widgets.merge(&json!({"spec": {"num": 1}})).await.is(200);
    let mut watch = widgets.watch_from(&cx, &first).await;
    assert_eq!(watch.lines().await, ["ADDED b", "MODIFIED a"]);
    cx.delete(&widgets.at("b")).await.is(200);
    assert_eq!(watch.line().await, "DELETED b");
}

#[tokio::test]
async fn a_deleted_object_carries_its_last_state_and_a_new_version() {
    let (cx, widgets) = widgets().await;
    let made = widgets.post("a", &json!({"num": 1})).await.is(201);
    let mut watch = widgets.watch_from(&cx, &made).await;
    widgets.delete().await.is(200);
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["spec"]),
        (&json!("DELETED"), &json!({"num": 1}))
    );
    assert!(rv(&event["object"]).parse::<u64>().unwrap() > rv(&made).parse().unwrap());
}

#[tokio::test]
async fn objects_enter_and_leave_a_selector() {
    let (cx, widgets) = widgets().await;
    let made = widgets.post("a", &json!({})).await.is(201);
    let path = format!(
        "{}?labelSelector=l%3Dx&resourceVersion={}",
        widgets.path,
        rv(&made)
    );
    let mut watch = cx.watch(&path).await;
    for label in [json!("x"), json!("x2"), json!("x"), Value::Null] {
        widgets
            .merge(&json!({"metadata": {"labels": {"l": label}}}))
            .await
            .is(200);
    }
    assert_eq!(
        watch.lines().await,
        ["ADDED a", "DELETED a", "ADDED a", "DELETED a"]
    );
}

#[tokio::test]
async fn one_object_is_watched_by_its_name() {
    let (cx, widgets) = widgets().await;
    let mut watch = cx
        .watch(&format!(
            "{}?fieldSelector=metadata.name%3Db&resourceVersion=0",
            widgets.path
        ))
        .await;
    widgets.post("a", &json!({})).await.is(201);
    widgets.post("b", &json!({})).await.is(201);
    assert_eq!(watch.line().await, "ADDED b");
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = cx.watch(&format!("{}?{query}", widgets.path)).await;
    assert_eq!(watch.line().await, "ADDED a");
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "Widget");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    widgets.post("b", &json!({})).await.is(201);
    assert_eq!(watch.line().await, "ADDED b");
}

#[tokio::test]
async fn bookmarks_without_a_version_mark_the_end_of_what_exists() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let mut watch = cx
        .watch(&format!("{}?allowWatchBookmarks=true", widgets.path))
        .await;
    assert_eq!(watch.line().await, "ADDED a");
    let bookmark = watch.next().await.unwrap();
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
}

#[tokio::test]
async fn initial_events_end_without_a_mark_if_bookmarks_are_not_allowed() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = cx.watch(&format!("{}?{query}", widgets.path)).await;
    assert_eq!(watch.line().await, "ADDED a");
    widgets.post("b", &json!({})).await.is(201);
    assert_eq!(watch.line().await, "ADDED b");
}

#[tokio::test]
async fn initial_events_can_be_declined() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let query =
        "sendInitialEvents=false&resourceVersion=0&resourceVersionMatch=NotOlderThan&timeoutSeconds=30";
    let mut watch = cx.watch(&format!("{}?{query}", widgets.path)).await;
    assert_eq!(watch.code, 200);
    // Writes until the watch, whose start a client cannot observe, shows a change: "a" is not among its events.
    let mut first_event = None;
    for count in 0..40 {
        widgets.post(&format!("b{count}"), &json!({})).await.is(201);
        if let Ok(line) = tokio::time::timeout(std::time::Duration::from_millis(500), watch.line()).await {
            first_event = Some(line);
            break;
        }
    }
    assert!(
        first_event
            .as_ref()
            .is_some_and(|line| line.starts_with("ADDED b")),
        "{first_event:?}"
    );
}

#[tokio::test]
async fn a_version_from_the_future_waits_and_ends_with_the_timeout() {
    let (cx, widgets) = widgets().await;
    let list = cx.get(&widgets.path).await.is(200);
    let future = rv(&list).parse::<u64>().unwrap() + 1_000_000;
    let mut watch = cx
        .watch(&format!(
            "{}?resourceVersion={future}&timeoutSeconds=1",
            widgets.path
        ))
        .await;
    assert_eq!((watch.code, watch.line().await.as_str()), (200, "END"));
}

#[tokio::test]
async fn a_version_that_is_too_old_is_an_error_event_with_code_410() {
    let (cx, widgets) = widgets().await;
    let made = widgets.post("a", &json!({})).await.is(201);
    let mut watch = cx.watch(&format!("{}?resourceVersion=1", widgets.path)).await;
    assert_eq!(watch.code, 200);
    let event = watch.next().await.unwrap();
    if event["type"] == "ERROR" {
        assert_eq!(
            (&event["object"]["code"], &event["object"]["reason"]),
            (&json!(410), &json!("Expired"))
        );
        assert!(
            event["object"]["message"]
                .as_str()
                .unwrap()
                .starts_with("too old resource version: 1"),
            "{event}"
        );
        assert_eq!(watch.line().await, "END");
    } else {
        // A server that has kept its whole history may start there.
        assert_eq!(rv(&event["object"]), rv(&made));
    }
}

#[tokio::test]
async fn a_version_from_before_the_definition_is_too_old() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let crd = cx.get(&widgets.crd_path()).await.is(200);
    let before = cx.get(&format!("/api/v1/namespaces/{}", cx.ns)).await.is(200);
    assert!(rv(&before).parse::<u64>().unwrap() < rv(&crd).parse().unwrap());
    let mut watch = widgets.watch_from(&cx, &before).await;
    assert_eq!(watch.code, 200);
    let event = watch.next().await.unwrap();
    let status = &event["object"];
    assert_eq!(
        (&event["type"], &status["code"], &status["reason"]),
        (&json!("ERROR"), &json!(410), &json!("Expired"))
    );
    let begin = format!("too old resource version: {} (", rv(&before));
    assert!(
        status["message"].as_str().unwrap().starts_with(&begin),
        "{status}"
    );
    assert_eq!(watch.line().await, "END");
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout() {
    let (cx, widgets) = widgets().await;
    let mut watch = cx.watch(&format!("{}?timeoutSeconds=1", widgets.path)).await;
    assert_eq!(watch.line().await, "END");
}

#[tokio::test]
async fn built_in_kinds_are_watched_too() {
    let cx = Cx::new().await;
    let first = cx.new_cm("a").await;
    let mut watch = cx
        .watch(&format!("{}?resourceVersion={}", cx.cm(), rv(&first)))
        .await;
    let second = cx.new_cm("b").await;
    loop {
        let event = watch.next().await.unwrap();
        if event["object"]["metadata"]["name"] == "kube-root-ca.crt" {
            continue;
        }
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &second));
        break;
    }
}

#[tokio::test]
async fn a_write_that_changes_nothing_sends_nothing() {
    let (cx, widgets) = widgets().await;
    let made = widgets.post("a", &json!({"num": 1})).await.is(201);
    let mut watch = widgets.watch_from(&cx, &made).await;
    widgets.merge(&json!({"spec": {"num": 1}})).await.is(200);
    widgets.merge(&json!({"spec": {"num": 2}})).await.is(200);
    let event = watch.next().await.unwrap();
    assert_eq!(event["object"]["spec"]["num"], 2);
}
