//! Server-side apply as controllers use it.

use serde_json::{Value, json};

use super::{ApplyError, ApplyOptions, TypeRef, UpdateOptions, apply, track_update};
use crate::schema::{Changed, Schema};

fn schema() -> Schema {
    Schema::parse(&json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "num": {"type": "integer"},
                    "text": {"type": "string"},
                    "flag": {"type": "boolean"},
                    "items": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"}, "a": {"type": "integer"}, "b": {"type": "integer"},
                        }},
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "order": {"type": "array", "items": {"type": "string"}},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                },
            },
            "status": {"type": "object", "properties": {"note": {"type": "string"}}},
        },
    }))
    .unwrap()
}

/// A widget and operations on it, at increasing times.
struct Bed {
    schema: Schema,
    live: Option<Value>,
    second: u32,
}

impl Bed {
    fn new() -> Self {
        Self {
            schema: schema(),
            live: None,
            second: 0,
        }
    }

    fn now(&mut self) -> String {
        self.second += 1;
        format!("2026-01-01T00:00:{:02}Z", self.second)
    }

    fn apply_as(&mut self, manager: &str, force: bool, spec: &Value) -> Result<Value, ApplyError> {
        let now = self.now();
        let applied =
            json!({"apiVersion": "t.example/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
        let options = ApplyOptions {
            manager,
            force,
            subresource: None,
            has_status: true,
            api_version: "t.example/v1",
            now: &now,
        };
        let result = apply(
            self.live.as_ref(),
            &applied,
            TypeRef::Custom(&self.schema),
            &options,
        )?;
        self.live = Some(result.clone());
        Ok(result)
    }

    fn apply(&mut self, manager: &str, spec: &Value) -> Value {
        self.apply_as(manager, false, spec).unwrap()
    }

    fn update(&mut self, manager: &str, subresource: Option<&str>, change: impl FnOnce(&mut Value)) -> Value {
        let now = self.now();
        let mut new = self.live.clone().unwrap();
        change(&mut new);
        let options = UpdateOptions {
            manager,
            subresource,
            has_status: true,
            api_version: "t.example/v1",
            now: &now,
            changed: &Changed::Whole,
        };
        track_update(
            self.live.as_ref(),
            &mut new,
            TypeRef::Custom(&self.schema),
            &options,
        );
        self.live = Some(new.clone());
        new
    }

    fn spec(&self) -> &Value {
        &self.live.as_ref().unwrap()["spec"]
    }

    /// `manager operation subresource time fields` of every entry.
    fn owners(&self) -> Vec<String> {
        let entries = self.live.as_ref().unwrap()["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or("-").to_owned();
        entries
            .iter()
            .map(|entry| {
                let time = text(entry, "time");
                let second = time.get(17..19).unwrap_or("-");
                format!(
                    "{} {} {} {second} {}",
                    text(entry, "manager"),
                    text(entry, "operation"),
                    text(entry, "subresource"),
                    entry["fieldsV1"]
                )
            })
            .collect()
    }
}

#[test]
fn the_same_apply_changes_nothing() {
    let mut bed = Bed::new();
    let first = bed.apply("x", &json!({"num": 1}));
    assert_eq!(bed.owners(), [r#"x Apply - 01 {"f:spec":{"f:num":{}}}"#]);
    assert_eq!(bed.apply("x", &json!({"num": 1})), first);
}

#[test]
fn a_second_manager_of_the_same_values_has_no_time_until_it_changes_something() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"num": 1}));
    bed.apply("y", &json!({"num": 1}));
    let both = [
        r#"y Apply - - {"f:spec":{"f:num":{}}}"#,
        r#"x Apply - 01 {"f:spec":{"f:num":{}}}"#,
    ];
    assert_eq!(bed.owners(), both);
    let again = bed.live.clone().unwrap();
    assert_eq!(bed.apply("y", &json!({"num": 1})), again);
    bed.apply("y", &json!({"num": 1, "text": "t"}));
    assert_eq!(
        bed.owners()[1],
        r#"y Apply - 04 {"f:spec":{"f:num":{},"f:text":{}}}"#
    );
}

#[test]
fn a_conflict_names_manager_and_field_and_changes_nothing() {
    let mut bed = Bed::new();
    let before = bed.apply("x", &json!({"num": 1}));
    let Err(ApplyError::Conflict { message, causes }) = bed.apply_as("y", false, &json!({"num": 2})) else {
        panic!("no conflict")
    };
    assert_eq!(
        message,
        r#"Apply failed with 1 conflict: conflict with "x": .spec.num"#
    );
    assert_eq!(
        causes[0].to_json(),
        json!({
            "reason": "FieldManagerConflict", "message": r#"conflict with "x""#, "field": ".spec.num",
        })
    );
    assert_eq!(bed.live, Some(before));
}

#[test]
fn conflicts_with_updaters_say_the_version_and_several_are_listed() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"num": 1, "text": "t", "flag": true}));
    bed.update("u", None, |new| new["spec"]["num"] = json!(2));
    let error = bed
        .apply_as("z", false, &json!({"num": 3, "text": "u", "flag": false}))
        .unwrap_err();
    let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            r#"Apply failed with 3 conflicts: conflicts with "u" using t.example/v1:"#,
            "- .spec.num",
            r#"conflicts with "x":"#,
            "- .spec.flag",
            "- .spec.text",
        ]
    );
}

#[test]
fn force_takes_the_field_from_the_other() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"num": 1, "text": "t"}));
    bed.apply_as("y", true, &json!({"num": 2})).unwrap();
    assert_eq!(bed.spec()["num"], 2);
    assert_eq!(
        bed.owners(),
        [
            r#"x Apply - 01 {"f:spec":{"f:text":{}}}"#,
            r#"y Apply - 02 {"f:spec":{"f:num":{}}}"#,
        ]
    );
}

#[test]
fn what_is_no_longer_applied_goes_unless_someone_else_owns_it() {
    let mut bed = Bed::new();
    bed.apply(
        "x",
        &json!({"num": 1, "text": "t", "items": [{"name": "i", "a": 1}, {"name": "j", "a": 1}]}),
    );
    bed.apply("y", &json!({"text": "t", "items": [{"name": "j", "b": 2}]}));
    bed.apply("x", &json!({"num": 1}));
    assert_eq!(
        bed.spec(),
        &json!({"num": 1, "text": "t", "items": [{"name": "j", "b": 2}]})
    );
    bed.apply("y", &json!({}));
    assert_eq!(bed.spec(), &json!({"num": 1}));
}

#[test]
fn defaults_of_the_server_stay_when_an_applier_leaves() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"num": 1, "labels": {"mine": "1"}}));
    bed.live.as_mut().unwrap()["spec"]["flag"] = json!(true);
    bed.apply("x", &json!({"num": 1}));
    assert_eq!(bed.spec(), &json!({"num": 1, "flag": true}));
}

#[test]
fn list_maps_merge_by_key_and_own_by_key() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"items": [{"name": "i", "a": 1}]}));
    bed.apply(
        "y",
        &json!({"items": [{"name": "k", "b": 1}, {"name": "i", "b": 2}]}),
    );
    assert_eq!(
        bed.spec()["items"],
        json!([{"name": "k", "b": 1}, {"name": "i", "a": 1, "b": 2}])
    );
    assert_eq!(
        bed.owners()[0],
        r#"x Apply - 01 {"f:spec":{"f:items":{"k:{\"name\":\"i\"}":{".":{},"f:a":{},"f:name":{}}}}}"#
    );
}

#[test]
fn sets_merge_by_value_and_atomic_lists_and_maps_are_replaced() {
    let mut bed = Bed::new();
    bed.apply(
        "x",
        &json!({"tags": ["a", "b"], "order": ["1", "2"], "whole": {"k": "v"}}),
    );
    bed.apply("y", &json!({"tags": ["c", "a"]}));
    assert_eq!(bed.spec()["tags"], json!(["c", "a", "b"]));
    let error = bed
        .apply_as(
            "y",
            false,
            &json!({"tags": ["c"], "order": ["3"], "whole": {"l": "w"}}),
        )
        .unwrap_err();
    assert!(
        error.to_string().contains("- .spec.order\n- .spec.whole"),
        "{error}"
    );
    bed.apply_as("y", true, &json!({"order": ["3"], "whole": {"l": "w"}}))
        .unwrap();
    assert_eq!(
        bed.spec(),
        &json!({"tags": ["a", "b"], "order": ["3"], "whole": {"l": "w"}})
    );
    assert_eq!(
        bed.owners()[1],
        r#"y Apply - 04 {"f:spec":{"f:order":{},"f:whole":{}}}"#
    );
}

#[test]
fn granular_maps_own_each_key() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"labels": {"a": "1"}}));
    bed.apply("y", &json!({"labels": {"b": "2"}}));
    assert_eq!(bed.spec()["labels"], json!({"a": "1", "b": "2"}));
    bed.apply("x", &json!({}));
    assert_eq!(bed.spec()["labels"], json!({"b": "2"}));
}

#[test]
fn an_update_takes_what_it_changes_from_appliers() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"num": 1}));
    bed.update("m", None, |new| new["spec"]["num"] = json!(2));
    assert_eq!(bed.owners(), [r#"m Update - 02 {"f:spec":{"f:num":{}}}"#]);
    let error = bed.apply_as("x", false, &json!({"num": 1})).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "m" using t.example/v1: .spec.num"#
    );
}

#[test]
fn an_update_that_changes_nothing_leaves_no_trace() {
    let mut bed = Bed::new();
    let before = bed.apply("x", &json!({"num": 1}));
    assert_eq!(bed.update("m", None, |_| {}), before);
}

#[test]
fn status_writes_have_an_entry_of_their_own() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"num": 1}));
    bed.update("s", Some("status"), |new| new["status"] = json!({"note": "hi"}));
    assert_eq!(
        bed.owners()[1],
        r#"s Update status 02 {"f:status":{".":{},"f:note":{}}}"#
    );
}

#[test]
fn labels_and_finalizers_of_creates_are_owned_and_names_are_not() {
    let mut new = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": {"l": "1"}, "finalizers": ["x/y"]},
        "data": {"k": "v"},
    });
    let options = UpdateOptions {
        manager: "kubectl-create",
        subresource: None,
        has_status: false,
        api_version: "v1",
        now: "2026-01-01T00:00:00Z",
        changed: &Changed::Whole,
    };
    track_update(None, &mut new, TypeRef::Builtin("core.v1.ConfigMap"), &options);
    assert_eq!(
        new["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl-create", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:k": {}},
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}, "f:finalizers": {".": {}, "v:\"x/y\"": {}}},
            },
        }])
    );
}

#[test]
fn builtin_lists_merge_by_their_keys_with_defaults() {
    let options = |manager| ApplyOptions {
        manager,
        force: false,
        subresource: None,
        has_status: true,
        api_version: "v1",
        now: "2026-01-01T00:00:00Z",
    };
    let service = |ports: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": ports},
        })
    };
    let ty = TypeRef::Builtin("core.v1.Service");
    let first = apply(
        None,
        &service(json!([{"port": 80, "name": "http"}])),
        ty,
        &options("x"),
    )
    .unwrap();
    let second = service(
        json!([{"port": 80, "protocol": "UDP", "name": "q"}, {"port": 80, "protocol": "TCP", "targetPort": "w"}]),
    );
    let both = apply(Some(&first), &second, ty, &options("y")).unwrap();
    assert_eq!(
        both["spec"]["ports"],
        json!([
            {"port": 80, "protocol": "UDP", "name": "q"},
            {"port": 80, "protocol": "TCP", "name": "http", "targetPort": "w"},
        ])
    );
}

#[test]
fn what_is_not_of_its_type_is_refused_in_the_words_of_the_real_server() {
    let check = |spec: Value, expect: &str| {
        let error = Bed::new().apply_as("x", false, &spec).unwrap_err().to_string();
        let prefix = "failed to create typed patch object (/a; t.example/v1, Kind=Widget): ";
        assert_eq!(error.strip_prefix(prefix), Some(expect), "{error}");
    };
    check(
        json!({"num": "1"}),
        ".spec.num: expected numeric (int or float), got string",
    );
    check(
        json!({"text": 1}),
        ".spec.text: expected string, got &value.valueUnstructured{Value:1}",
    );
    check(json!({"bogus": 1}), ".spec.bogus: field not declared in schema");
    check(
        json!({"items": [{"name": "a"}, {"name": "a"}]}),
        r#".spec.items: duplicate entries for key [name="a"]"#,
    );
    check(
        json!({"tags": ["a", "a"]}),
        r#".spec.tags: duplicate entries for key [="a"]"#,
    );
    check(
        json!({"items": [{"a": 1}]}),
        concat!(
            r#".spec.items: element 0: associative list with keys has an element that omits all key fields ["name"] "#,
            "(and doesn't have default values for any key fields)"
        ),
    );
    check(
        json!({"num": "1", "text": 1}),
        concat!(
            "errors:\n  .spec.num: expected numeric (int or float), got string\n",
            "  .spec.text: expected string, got &value.valueUnstructured{Value:1}",
        ),
    );
}

#[test]
fn objects_without_entries_get_one_for_what_was_before_the_first_apply() {
    let mut bed = Bed::new();
    bed.live = Some(json!({
        "apiVersion": "t.example/v1", "kind": "Widget", "metadata": {"name": "a", "uid": "u"}, "spec": {"num": 1, "text": "t"},
    }));
    bed.apply("x", &json!({"num": 1}));
    assert_eq!(
        bed.owners(),
        [
            r#"x Apply - - {"f:spec":{"f:num":{}}}"#,
            r#"before-first-apply Update - 01 {"f:spec":{".":{},"f:num":{},"f:text":{}}}"#,
        ]
    );
}

#[test]
fn managed_fields_may_not_be_applied_and_an_empty_list_resets_them() {
    let mut bed = Bed::new();
    bed.apply("x", &json!({"num": 1}));
    let given = bed.live.clone().unwrap();
    let options = ApplyOptions {
        manager: "x",
        force: true,
        subresource: None,
        has_status: true,
        api_version: "t.example/v1",
        now: "",
    };
    let error = apply(bed.live.as_ref(), &given, TypeRef::Custom(&bed.schema), &options).unwrap_err();
    assert_eq!(error.to_string(), "metadata.managedFields must be nil");
    let reset = bed.update("m", None, |new| new["metadata"]["managedFields"] = json!([]));
    assert_eq!(reset["metadata"].get("managedFields"), None);
}
