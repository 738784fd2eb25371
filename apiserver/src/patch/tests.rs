//! Patches as kubectl and controllers send them.

use serde_json::{Value, json};

use super::{PatchError, json as json_patch, merge_patch, strategic};

#[test]
fn a_json_patch_with_a_failed_test_is_rejected() {
    let object = json!({"spec": {"replicas": 1}});
    let patch = json!([
        {"op": "test", "path": "/spec/replicas", "value": 2},
        {"op": "replace", "path": "/spec/replicas", "value": 3},
    ]);
    assert_eq!(json_patch(&object, &patch), Err(PatchError::Rejected));
    assert!(matches!(
        json_patch(&object, &json!({"op": "add"})),
        Err(PatchError::Malformed(_))
    ));
    let added = json_patch(
        &object,
        &json!([{"op": "add", "path": "/spec/list", "value": [1]}]),
    )
    .unwrap();
    assert_eq!(added, json!({"spec": {"replicas": 1, "list": [1]}}));
}

#[test]
fn a_json_patch_is_all_or_nothing_whatever_was_done_before_the_failure() {
    // Undone step by step, the first move would move a value into itself.
    let object = json!({"a": {"b": {"c": 1}}, "d": 1});
    let patch = json!([
        {"op": "move", "from": "/a/b", "path": "/a"},
        {"op": "test", "path": "/d", "value": 2},
    ]);
    assert_eq!(json_patch(&object, &patch), Err(PatchError::Rejected));
}

#[test]
fn a_json_patch_cannot_grow_a_value_without_end() {
    let object = json!({"a": "a".repeat(1 << 20)});
    let copies = |count: usize| {
        let copy = |index| json!({"op": "copy", "from": "/a", "path": format!("/copy-{index}")});
        Value::from((0..count).map(copy).collect::<Vec<_>>())
    };
    assert!(json_patch(&object, &copies(2)).is_ok());
    assert_eq!(json_patch(&object, &copies(3)), Err(PatchError::Rejected));
    let tests = |count| Value::from(vec![json!({"op": "test", "path": "/b", "value": 1}); count]);
    let small = json!({"b": 1});
    assert_eq!(json_patch(&small, &tests(10_000)).as_ref(), Ok(&small));
    assert_eq!(
        json_patch(&small, &tests(10_001)).map_err(|error| error.to_string()),
        Err("The allowed maximum operations in a JSON patch is 10000, got 10001".to_owned())
    );
}

#[test]
fn a_json_patch_cannot_nest_a_value_without_end() {
    let copies = |count: usize| vec![json!({"op": "copy", "from": "/a", "path": "/a/x"}); count];
    let object = json!({"a": {}});
    assert!(json_patch(&object, &copies(100).into()).is_ok());
    assert_eq!(
        json_patch(&object, &copies(200).into()),
        Err(PatchError::Rejected)
    );
    let adds = |count: usize| -> Value {
        let add = |index| json!({"op": "add", "path": format!("/a{}", "/x".repeat(index + 1)), "value": {}});
        (0..count).map(add).collect()
    };
    assert!(json_patch(&object, &adds(100)).is_ok());
    assert_eq!(json_patch(&object, &adds(200)), Err(PatchError::Rejected));
    // Moving back and forth does not increase the depth.
    let moves = [
        json!({"op": "move", "from": "/x", "path": "/y/x"}),
        json!({"op": "move", "from": "/y/x", "path": "/x"}),
    ];
    let object = json!({"x": 1, "y": {}});
    assert_eq!(
        json_patch(&object, &vec![moves; 500].concat().into()).as_ref(),
        Ok(&object)
    );
}

#[test]
fn a_merge_patch_removes_nulls_and_replaces_lists() {
    let object = json!({"a": {"b": 1, "c": 2}, "list": [1, 2]});
    let merged = merge_patch(
        &object,
        &json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "list": [3]}),
    )
    .unwrap();
    assert_eq!(merged, json!({"a": {"c": 2, "d": {"f": 1}}, "list": [3]}));
}

fn check(object: &Value, patch: &Value, expect: &Value) {
    assert_eq!(
        &strategic(object, patch, "core.v1.PodSpec").unwrap(),
        expect,
        "{patch}"
    );
}

#[test]
fn strategic_lists_merge_by_key() {
    let pod = json!({"containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "1"}]});
    check(
        &pod,
        &json!({"containers": [{"name": "b", "image": "2"}]}),
        &json!({"containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "2"}]}),
    );
    check(
        &pod,
        &json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]}),
        &json!({"containers": [
            {"name": "a", "image": "1", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]},
            {"name": "b", "image": "1"},
        ]}),
    );
    // New items come before those of the server that the order does not name.
    check(
        &json!({"containers": [{"name": "a"}]}),
        &json!({"containers": [{"name": "z"}]}),
        &json!({"containers": [{"name": "z"}, {"name": "a"}]}),
    );
    // Without a patch strategy: replaced.
    check(
        &json!({"tolerations": [{"key": "a"}]}),
        &json!({"tolerations": [{"key": "b"}]}),
        &json!({"tolerations": [{"key": "b"}]}),
    );
}

#[test]
fn strategic_directives() {
    let pod = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "nodeSelector": {"x": "1"}});
    check(
        &pod,
        &json!({"containers": [{"name": "a", "$patch": "delete"}]}),
        &json!({"containers": [{"name": "b"}], "nodeSelector": {"x": "1"}}),
    );
    check(
        &pod,
        &json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
        &json!({"containers": [{"name": "c"}], "nodeSelector": {"x": "1"}}),
    );
    check(
        &pod,
        &json!({"nodeSelector": {"$patch": "replace", "y": "2"}}),
        &json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "nodeSelector": {"y": "2"}}),
    );
    check(
        &pod,
        &json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "2"}]}),
        &json!({"containers": [{"name": "b"}, {"name": "a", "image": "2"}], "nodeSelector": {"x": "1"}}),
    );
    check(
        &json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        &json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
        &json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
    );
    let meta = json!({"finalizers": ["a", "b"]});
    let patch = json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]});
    let patched = strategic(&meta, &patch, "meta.v1.ObjectMeta").unwrap();
    assert_eq!(patched, json!({"finalizers": ["c", "b"]}));
    assert!(strategic(&meta, &json!({"$patch": "explode"}), "meta.v1.ObjectMeta").is_err());
}

#[test]
fn strategic_nulls_remove_and_new_values_carry_no_directives() {
    check(
        &json!({"hostNetwork": true}),
        &json!({"hostNetwork": null, "securityContext": {"$retainKeys": ["runAsUser"], "runAsUser": 1, "runAsGroup": null}}),
        &json!({"securityContext": {"runAsUser": 1}}),
    );
}
