//! How much history the store keeps, and that it keeps each version once.

use serde_json::{Value, json};

use super::*;

/// A little more than one change of [`map`] without its text.
const OVERHEAD: usize = 1024;

fn maps() -> GroupResource {
    GroupResource::new("", "configmaps")
}

fn secrets() -> GroupResource {
    GroupResource::new("", "secrets")
}

fn store(bytes: usize) -> Store {
    let store = Store::new(Limits { changes: 1000, bytes }, Vec::new());
    store.open(&maps(), false);
    store.open(&secrets(), false);
    store
}

fn map(size: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "b", "uid": "1"},
        "data": {"k": "x".repeat(size)},
    })
}

fn put(store: &Store, resource: &GroupResource, value: Value) -> Object {
    let key = ObjectKey::of(&value);
    let expected = store.get(resource, &key).map(|object| object.revision);
    store
        .commit(resource, &key, expected, &Write::Put(value))
        .unwrap()
}

fn changes(store: &Store, resource: &GroupResource, after: u64) -> Option<usize> {
    let changes = store.changes_after(resource, after, usize::MAX);
    changes.ok().map(|(changes, _)| changes.len())
}

#[test]
fn a_version_is_shared_by_store_history_and_lists() {
    let store = store(usize::MAX);
    let first = put(&store, &maps(), map(10));
    let second = put(&store, &maps(), map(20));
    let (changes, _) = store.changes_after(&maps(), 0, usize::MAX).unwrap();
    let live = store.get(&maps(), first.key()).unwrap();
    let listed = store.all(&maps(), None);
    assert!(Arc::ptr_eq(&changes[0].object, &first));
    assert!(Arc::ptr_eq(changes[1].previous.as_ref().unwrap(), &first));
    assert!(Arc::ptr_eq(&changes[1].object, &second));
    assert!(Arc::ptr_eq(&live, &second) && Arc::ptr_eq(&listed[0], &second));
    assert_eq!(live.json().as_ptr(), listed[0].json().as_ptr());
}

#[test]
fn each_version_of_the_past_counts_once() {
    let store = store(usize::MAX);
    for _ in 0..10 {
        put(&store, &maps(), map(100_000));
    }
    let (live, past) = store.bytes();
    assert!((100_000..100_000 + OVERHEAD).contains(&live), "{live}");
    assert!((900_000..900_000 + 10 * OVERHEAD).contains(&past), "{past}");
    let key = ObjectKey::new("a", "b");
    let live = store.get(&maps(), &key).unwrap();
    store
        .commit(&maps(), &key, Some(live.revision), &Write::Remove(live.value()))
        .unwrap();
    let (live, past) = store.bytes();
    assert_eq!(live, 0);
    // The version before the deletion, and the last state for watchers.
    assert!((1_100_000..1_100_000 + 11 * OVERHEAD).contains(&past), "{past}");
    store.compact();
    assert_eq!(store.bytes(), (0, 0));
}

#[test]
fn the_history_is_bounded_in_bytes_and_what_is_gone_is_expired() {
    let store = store(1_000_000);
    let first = put(&store, &maps(), map(100_000)).revision;
    for _ in 0..100 {
        put(&store, &maps(), map(100_000));
        assert!(store.bytes().1 <= 1_000_000, "{:?}", store.bytes());
    }
    let newest = store.revision();
    assert_eq!(changes(&store, &maps(), first), None);
    assert_eq!(changes(&store, &maps(), newest - 9), Some(9));
    let query = |at| PageQuery {
        at: Some(at),
        ..PageQuery::default()
    };
    assert!(store.page(&maps(), &query(first)).is_err());
    assert_eq!(store.page(&maps(), &query(newest - 9)).unwrap().items.len(), 1);
}

#[test]
fn large_objects_do_not_end_the_watches_of_other_resources() {
    let store = store(1_000_000);
    for _ in 0..10 {
        put(&store, &secrets(), map(10));
    }
    for _ in 0..100 {
        put(&store, &maps(), map(100_000));
    }
    assert_eq!(changes(&store, &secrets(), 1), Some(10));
    assert_eq!(changes(&store, &maps(), 1), None);
}

#[test]
fn a_watcher_that_is_awake_sees_a_change_larger_than_the_bound() {
    let store = store(1_000);
    put(&store, &maps(), map(100_000));
    put(&store, &maps(), map(100_000));
    assert_eq!(changes(&store, &maps(), store.revision() - 1), Some(1));
}

#[test]
fn the_text_says_what_the_value_said() {
    let store = store(usize::MAX);
    for (value, untyped) in [
        (
            map(3),
            r#""metadata":{"resourceVersion":"2","name":"b","namespace":"a","uid":"1"},"data":{"k":"xxx"}}"#,
        ),
        (
            json!({"Zone": 1, "apiVersion": "t/v1", "kind": "T", "metadata": {"name": "c\"", "resourceVersion": "7"}}),
            r#""metadata":{"resourceVersion":"3","name":"c\""},"Zone":1}"#,
        ),
    ] {
        let stored = put(&store, &maps(), value.clone());
        let mut expect = value.clone();
        meta::set_metadata(&mut expect, "resourceVersion", stored.revision.to_string().into());
        assert_eq!(stored.value(), expect);
        assert_eq!(stored.metadata(), expect["metadata"]);
        assert_eq!(std::str::from_utf8(stored.untyped_fields()).unwrap(), untyped);
        assert!(stored.has_api_version(value["apiVersion"].as_str().unwrap()));
        assert!(!stored.has_api_version("t/v") && !stored.has_api_version(""));
    }
    let unsaved = json!({"apiVersion": "v1", "kind": "T", "metadata": {}});
    assert_eq!(Stored::unsaved(&unsaved).value(), unsaved);
    assert_eq!(Stored::unsaved(&unsaved).metadata(), json!({}));
    let numbered = json!({"metadata": {"resourceVersion": "7"}});
    assert_eq!(Stored::unsaved(&numbered).value(), numbered);
}
