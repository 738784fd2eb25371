//! Writes that change nothing leave everything unchanged, including times; and which manager gets a new time.

use serde_json::{Value, json};

use crate::harness::{Cx, Kind, rv, widgets};

/// The case, its kind, and the widget `a` that `x` applied in a previous second.
async fn applied() -> (Cx, Kind, Value) {
    let (cx, widgets) = widgets().await;
    let made = widgets.apply("x", &json!({"num": 1})).await.is(201);
    cx.until_another_second(&made).await;
    (cx, widgets, made)
}

/// The time of a manager's entry, null if it has none.
fn time_of(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == manager).unwrap();
    entry["time"].clone()
}

#[tokio::test]
async fn the_same_apply_a_second_later_changes_no_version_and_no_time() {
    let (_cx, widgets, made) = applied().await;
    let again = widgets.apply("x", &json!({"num": 1})).await.is(200);
    assert_eq!(again, made);
    assert_eq!(widgets.get().await.is(200), made);
}

#[tokio::test]
async fn a_merge_patch_and_a_put_that_change_nothing_a_second_later_leave_no_entry_and_no_time() {
    let (cx, widgets, made) = applied().await;
    let path = format!("{}?fieldManager=m", widgets.at("a"));
    for patch in [json!({"spec": {"num": 1}}), json!({})] {
        assert_eq!(cx.merge(&path, &patch).await.is(200), made);
    }
    assert_eq!(cx.put(&path, &made).await.is(200), made);
    assert_eq!(widgets.get().await.is(200), made);
}

#[tokio::test]
async fn a_status_that_is_written_again_a_second_later_changes_no_version_and_no_time() {
    let (cx, widgets, _) = applied().await;
    let path = format!("{}/status?fieldManager=s", widgets.at("a"));
    let patch = json!({"status": {"note": "hi"}});
    let written = cx.merge(&path, &patch).await.is(200);
    // Waits for the second after the write, since the clock is compared with the entry of the write.
    let stamp = json!({"metadata": {"creationTimestamp": time_of(&written, "s")}});
    cx.until_another_second(&stamp).await;
    assert_eq!(cx.merge(&path, &patch).await.is(200), written);
}

#[tokio::test]
async fn the_entry_of_a_second_manager_gets_a_time_with_its_first_change() {
    let (_cx, widgets, made) = applied().await;
    let shared = widgets.apply("y", &json!({"num": 1})).await.is(200);
    assert_ne!(rv(&shared), rv(&made));
    assert_eq!(time_of(&shared, "y"), Value::Null);
    let spec = json!({"num": 1, "flag": true});
    let changed = widgets.apply("y", &spec).await.is(200);
    assert!(time_of(&changed, "y").is_string(), "{changed}");
    assert_eq!(time_of(&changed, "x"), time_of(&made, "x"));
}
