//! Custom resource definitions: validation, life cycle, discovery of their kinds.

use serde_json::{Value, json};

use crate::harness::{CRDS, Cx, Kind, widget_schema, widgets};

fn condition<'a>(crd: &'a Value, kind: &str) -> &'a Value {
    crd["status"]["conditions"]
        .as_array()
        .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == kind))
        .unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_crd_is_accepted_and_established() {
    let (cx, widgets) = widgets().await;
    cx.until("it is established", || async {
        let crd = cx.get(&widgets.crd_path()).await.is(200);
        condition(&crd, "Established")["status"] == "True"
    })
    .await;
    let crd = cx.get(&widgets.crd_path()).await.is(200);
    assert_eq!(condition(&crd, "NamesAccepted")["status"], "True");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["status"]["acceptedNames"]["plural"], "widgets");
    assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
}

#[tokio::test]
async fn a_crd_is_discovered() {
    let (cx, widgets) = widgets().await;
    let list = cx.get(&format!("/apis/{}/v1", widgets.group)).await.is(200);
    let resources = list["resources"].as_array().unwrap();
    let widget = resources
        .iter()
        .find(|resource| resource["name"] == "widgets")
        .unwrap();
    assert_eq!(
        (&widget["kind"], &widget["namespaced"], &widget["shortNames"]),
        (&json!("Widget"), &json!(true), &json!(["wd"]))
    );
    assert!(
        resources
            .iter()
            .any(|resource| resource["name"] == "widgets/status")
    );
    let group = cx.get(&format!("/apis/{}", widgets.group)).await.is(200);
    assert_eq!(
        group["preferredVersion"]["groupVersion"],
        widgets.api_version.as_str()
    );
}

#[tokio::test]
async fn the_name_must_be_plural_and_group() {
    let cx = Cx::new().await;
    let mut crd = Kind::of(&cx, "widgets").definition(&widget_schema(), &json!({}));
    crd["metadata"]["name"] = json!("odd");
    cx.post(CRDS, &crd).await.refuses(
        422,
        "Invalid",
        "metadata.name: Invalid value: \"odd\": must be spec.names.plural+\".\"+spec.group",
    );
}

#[tokio::test]
async fn a_schema_must_be_structural() {
    let cx = Cx::new().await;
    for (schema, cause) in [
        (
            json!({"type": "object", "properties": {"a": {}}}),
            "FieldValueRequired spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            "FieldValueRequired spec.validation.openAPIV3Schema.properties[a].items: Required value: must be specified",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}}),
            "FieldValueForbidden spec.validation.openAPIV3Schema.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "FieldValueForbidden spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "string"}),
            "FieldValueInvalid spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}}}),
            "FieldValueForbidden spec.validation.openAPIV3Schema.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "FieldValueForbidden spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            "",
        ),
    ] {
        let reply = cx
            .post(CRDS, &Kind::of(&cx, "widgets").definition(&schema, &json!({})))
            .await;
        reply.refuses(422, "Invalid", "");
        if !cause.is_empty() {
            let text = cause.split_once(' ').unwrap().1;
            assert!(
                reply.message().contains(text),
                "{text}\nis not in\n{}",
                reply.message()
            );
        }
    }
}

#[tokio::test]
async fn a_list_map_needs_keys_that_are_required_or_defaulted() {
    let cx = Cx::new().await;
    let list = |more: Value| {
        let mut list = json!({"type": "array", "x-kubernetes-list-type": "map",
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}});
        for (key, value) in more.as_object().unwrap() {
            list[key] = value.clone();
        }
        json!({"type": "object", "properties": {"l": list}})
    };
    for (more, expect) in [
        (
            json!({}),
            "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({"x-kubernetes-list-map-keys": ["odd"]}),
            "entries must all be names of item properties",
        ),
        (
            json!({"x-kubernetes-list-map-keys": ["k"]}),
            "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            json!({"x-kubernetes-list-type": "odd"}),
            "Unsupported value: \"odd\": supported values: \"atomic\", \"set\", \"map\"",
        ),
    ] {
        let reply = cx
            .post(
                CRDS,
                &Kind::of(&cx, "widgets").definition(&list(more), &json!({})),
            )
            .await;
        reply.refuses(422, "Invalid", expect);
    }
}

#[tokio::test]
async fn a_default_must_be_valid_and_known() {
    let cx = Cx::new().await;
    for (property, expect) in [
        (
            json!({"type": "integer", "default": "x"}),
            "properties[a].default",
        ),
        (
            json!({"type": "object", "default": {"b": 1}, "properties": {}}),
            "properties[a].default",
        ),
    ] {
        let schema = json!({"type": "object", "properties": {"a": property}});
        let reply = cx
            .post(CRDS, &Kind::of(&cx, "widgets").definition(&schema, &json!({})))
            .await;
        reply.refuses(422, "Invalid", expect);
    }
}

#[tokio::test]
async fn exactly_one_version_is_stored() {
    let cx = Cx::new().await;
    let mut crd = Kind::of(&cx, "widgets").definition(&widget_schema(), &json!({}));
    crd["spec"]["versions"][0]["storage"] = json!(false);
    cx.post(CRDS, &crd).await.refuses(
        422,
        "Invalid",
        "must have exactly one version marked as storage version",
    );
}

#[tokio::test]
async fn a_deleted_crd_takes_its_objects_with_it() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    cx.delete(&widgets.crd_path()).await.is(200);
    cx.until_gone(&widgets.crd_path()).await;
    cx.until("the path is gone", || async {
        let reply = cx.get(&widgets.path).await;
        reply.code == 404 && reply.text.trim() == "404 page not found"
    })
    .await;
}

#[tokio::test]
async fn a_terminating_crd_waits_for_its_objects() {
    let (cx, widgets) = widgets().await;
    let mut held = widgets.object("held", &json!({"num": 1}));
    held["metadata"]["finalizers"] = json!(["e.example/hold"]);
    cx.post(&widgets.path, &held).await.is(201);
    widgets.post("free", &json!({})).await.is(201);
    cx.delete(&widgets.crd_path()).await.is(200);
    cx.until("the object without finalizers is gone", || async {
        cx.get(&widgets.at("free")).await.code == 404
    })
    .await;
    let crd = cx.get(&widgets.crd_path()).await.is(200);
    assert_eq!(
        crd["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    let terminating = condition(&crd, "Terminating");
    assert_eq!(
        (&terminating["status"], &terminating["reason"]),
        (&json!("True"), &json!("InstanceDeletionInProgress"))
    );
    assert_eq!(condition(&crd, "Established")["status"], "True");
    let object = cx.get(&widgets.at("held")).await.is(200);
    assert!(object["metadata"].get("deletionTimestamp").is_some());
    cx.merge(&widgets.at("held"), &json!({"spec": {"num": 2}}))
        .await
        .is(200);
    let reply = widgets.post("late", &json!({})).await;
    assert_eq!(reply.code, 403, "{}", reply.text);
    assert!(
        reply
            .message()
            .contains("create not allowed while custom resource definition is terminating"),
        "{}",
        reply.text
    );
    cx.merge(&widgets.at("held"), &json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    cx.until_gone(&widgets.crd_path()).await;
}

#[tokio::test]
async fn two_versions_show_the_same_object() {
    let cx = Cx::new().await;
    let kind = Kind::of(&cx, "widgets");
    let mut crd = kind.definition(&widget_schema(), &json!({}));
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    cx.post(CRDS, &crd).await.is(201);
    let newer = kind.path.replace("/v1/", "/v2/");
    cx.until("both versions are served", || async {
        cx.get(&kind.path).await.code == 200 && cx.get(&newer).await.code == 200
    })
    .await;
    let made = kind.post("a", &json!({"num": 1})).await.is(201);
    let read = cx.get(&format!("{newer}/a")).await.is(200);
    assert_eq!(read["apiVersion"], format!("{}/v2", kind.group));
    assert_eq!(
        (&read["spec"], &read["metadata"]["uid"]),
        (&made["spec"], &made["metadata"]["uid"])
    );
}

#[tokio::test]
async fn cluster_scoped_kinds_have_no_namespace() {
    let cx = Cx::new().await;
    let kind = Kind::of(&cx, "widgets");
    let mut crd = kind.definition(&widget_schema(), &json!({}));
    crd["spec"]["scope"] = json!("Cluster");
    cx.post(CRDS, &crd).await.is(201);
    let path = format!("/apis/{}/v1/widgets", kind.group);
    cx.until("it is served", || async { cx.get(&path).await.code == 200 })
        .await;
    let made = cx.post(&path, &kind.object("a", &json!({}))).await.is(201);
    assert_eq!(made["metadata"].get("namespace"), None);
    assert_eq!(cx.get(&kind.path).await.code, 404);
}

#[tokio::test]
async fn the_answer_to_a_new_crd_has_no_conditions_yet() {
    let cx = Cx::new().await;
    let crd = Kind::of(&cx, "widgets").definition(&widget_schema(), &json!({}));
    let made = cx.post(CRDS, &crd).await.is(201);
    assert_eq!(made["status"]["conditions"], Value::Null);
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(made["metadata"].get("finalizers"), None);
}

#[tokio::test]
async fn a_terminating_crd_takes_applies_to_what_exists_and_to_nothing_else() {
    let (cx, widgets) = widgets().await;
    let mut held = widgets.object("held", &json!({"num": 1}));
    held["metadata"]["finalizers"] = json!(["e.example/hold"]);
    cx.post(&widgets.path, &held).await.is(201);
    let deleted = cx.delete(&widgets.crd_path()).await.is(200);
    assert!(deleted["metadata"]["deletionTimestamp"].is_string(), "{deleted}");
    cx.until("the object is terminating", || async {
        cx.get(&widgets.at("held")).await.is(200)["metadata"]
            .get("deletionTimestamp")
            .is_some()
    })
    .await;
    let force = format!("{}?force=true", widgets.at("held"));
    let applied = cx
        .apply("x", &force, &widgets.object("held", &json!({"num": 2})))
        .await
        .is(200);
    assert_eq!(applied["spec"]["num"], 2);
    let late = widgets.object("late", &json!({}));
    for reply in [
        cx.post(&widgets.path, &late).await,
        cx.apply("x", &widgets.at("late"), &late).await,
    ] {
        reply.refuses(
            403,
            "Forbidden",
            "create not allowed while custom resource definition is terminating",
        );
    }
    cx.merge(&widgets.at("held"), &json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    cx.until_gone(&widgets.crd_path()).await;
    cx.until("the path is plain text again", || async {
        let reply = cx.get(&widgets.at("held")).await;
        reply.code == 404 && reply.text.trim() == "404 page not found"
    })
    .await;
}

/// A definition with two versions that have these selectable fields, and equal or different schemas.
fn selectable(kind: &Kind, fields: [&str; 2], alike: bool) -> Value {
    let given = |path: &str| json!([{"jsonPath": path}]);
    let mut crd = kind.definition(&widget_schema(), &json!({"selectableFields": given(fields[0])}));
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["selectableFields"] = given(fields[1]);
    if !alike {
        second["schema"]["openAPIV3Schema"]["description"] = json!("another");
    }
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    crd
}

#[tokio::test]
async fn equal_selectable_fields_of_versions_with_different_schemas_are_refused() {
    let cx = Cx::new().await;
    let kind = Kind::of(&cx, "widgets");
    let same = [".spec.text", ".spec.text"];
    cx.post(CRDS, &selectable(&kind, same, false)).await.refuses(
        422,
        "Invalid",
        "spec.selectableFields: Invalid value",
    );
    cx.post(CRDS, &selectable(&kind, same, true)).await.is(201);
}

#[tokio::test]
async fn different_selectable_fields_of_versions_with_equal_schemas_are_refused() {
    let cx = Cx::new().await;
    let kind = Kind::of(&cx, "widgets");
    let other = [".spec.text", ".spec.num"];
    cx.post(CRDS, &selectable(&kind, other, true)).await.refuses(
        422,
        "Invalid",
        "spec.versions[1].selectableFields: Invalid value",
    );
    cx.post(CRDS, &selectable(&kind, other, false)).await.is(201);
}

#[tokio::test]
async fn a_selectable_field_is_a_scalar_of_the_schema() {
    let cx = Cx::new().await;
    for (paths, expect) in [
        (
            json!([".spec.items"]),
            "selectableFields[0].jsonPath: Invalid value: \".spec.items\": must point to a field of type string, boolean or integer",
        ),
        (
            json!([".spec.text", ".spec.nope"]),
            "selectableFields[1].jsonPath: Invalid value: \".spec.nope\": is an invalid path: does not refer to a valid field",
        ),
        (
            json!([".spec.order[0]"]),
            "is an invalid path: array notation is not allowed",
        ),
        (
            json!([".spec.text", ".spec.text"]),
            "selectableFields[1].jsonPath: Duplicate value: \".spec.text\"",
        ),
        (json!([""]), "selectableFields[0].jsonPath: Required value"),
    ] {
        let fields: Vec<Value> = paths
            .as_array()
            .unwrap()
            .iter()
            .map(|path| json!({"jsonPath": path}))
            .collect();
        let more = json!({"selectableFields": fields});
        let reply = cx
            .post(
                CRDS,
                &Kind::of(&cx, "widgets").definition(&widget_schema(), &more),
            )
            .await;
        reply.refuses(422, "Invalid", expect);
    }
}

/// A definition with the versions v1, the storage version, and v2, which share a field `both`, and each have a field
/// and a default of their own.
fn versioned(kind: &Kind) -> Value {
    let schema = |own: &str| {
        let fields = json!({
            "both": {"type": "string"}, own: {"type": "string"}, format!("{own}-default"): {"type": "string", "default": own},
        });
        let fields = json!({"type": "object", "properties": fields});
        json!({"type": "object", "properties": {"spec": fields, "status": fields}})
    };
    let mut crd = kind.definition(&schema("one"), &json!({}));
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["schema"]["openAPIV3Schema"] = schema("two");
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    crd
}

/// The case, the kind, and its path at v2.
async fn two_versions() -> (Cx, Kind, String) {
    let cx = Cx::new().await;
    let kind = Kind::of(&cx, "widgets");
    cx.post(CRDS, &versioned(&kind)).await.is(201);
    let newer = kind.path.replace("/v1/", "/v2/");
    cx.until("both versions are served", || async {
        cx.get(&kind.path).await.code == 200 && cx.get(&newer).await.code == 200
    })
    .await;
    (cx, kind, newer)
}

#[tokio::test]
async fn without_a_webhook_a_version_shows_only_what_its_schema_has() {
    let (cx, kind, newer) = two_versions().await;
    let spec = json!({"both": "b", "one": "1"});
    let made = kind.post("a", &spec).await.is(201);
    assert_eq!(
        made["spec"],
        json!({"both": "b", "one": "1", "one-default": "one"})
    );
    let status = json!({"status": spec});
    cx.merge(&format!("{}/status", kind.at("a")), &status)
        .await
        .is(200);
    let expect = (json!("b"), Value::Null, Value::Null);
    let shown = |object: &Value, part: &str| {
        let part = &object[part];
        (
            part["both"].clone(),
            part["one"].clone(),
            part["two-default"].clone(),
        )
    };
    let one = cx.get(&format!("{newer}/a")).await.is(200);
    let list = cx.get(&newer).await.is(200);
    let event = cx.watch(&newer).await.next().await.unwrap();
    for object in [&one, &list["items"][0], &event["object"]] {
        assert_eq!(object["apiVersion"], format!("{}/v2", kind.group));
        for part in ["spec", "status"] {
            assert_eq!(shown(object, part), expect, "{part} of {object}");
        }
    }
}

#[tokio::test]
async fn without_a_webhook_what_the_stored_version_lacks_is_lost() {
    let (cx, kind, newer) = two_versions().await;
    let mut object = kind.object("a", &json!({"both": "b", "two": "2"}));
    object["apiVersion"] = json!(format!("{}/v2", kind.group));
    let made = cx.post(&newer, &object).await.is(201);
    assert_eq!(
        (&made["apiVersion"], &made["spec"]),
        (&object["apiVersion"], &json!({"both": "b"}))
    );
    let stored = kind.get().await.is(200);
    assert_eq!(stored["spec"], json!({"both": "b", "one-default": "one"}));
}

#[tokio::test]
async fn objects_of_before_another_version_was_stored_are_read_at_all_versions() {
    let (cx, kind, newer) = two_versions().await;
    kind.post("a", &json!({"both": "b", "one": "1"})).await.is(201);
    let patch = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    cx.patch(crate::harness::JSON_PATCH, &kind.crd_path(), &patch)
        .await
        .is(200);
    cx.until("both versions are noted as stored", || async {
        let crd = cx.get(&kind.crd_path()).await.is(200);
        crd["status"]["storedVersions"] == json!(["v1", "v2"])
    })
    .await;
    for (path, version) in [(&kind.path, "v1"), (&newer, "v2")] {
        cx.until("it is served again", || async { cx.get(path).await.code == 200 })
            .await;
        let read = cx.get(&format!("{path}/a")).await.is(200);
        assert_eq!(read["apiVersion"], format!("{}/{version}", kind.group));
        assert_eq!(read["spec"]["both"], "b");
    }
}

#[tokio::test]
async fn a_change_of_a_definition_ends_its_watches() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let mut watch = cx.watch(&widgets.path).await;
    assert_eq!(watch.line().await, "ADDED a");
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    cx.merge(&widgets.crd_path(), &label).await.is(200);
    widgets.merge(&label).await.is(200);
    assert_eq!(watch.line().await, "MODIFIED a");
    let path = "/spec/versions/0/schema/openAPIV3Schema/description";
    let patch = json!([{"op": "add", "path": path, "value": "another"}]);
    cx.patch(crate::harness::JSON_PATCH, &widgets.crd_path(), &patch)
        .await
        .is(200);
    assert_eq!(watch.line().await, "END");
}
