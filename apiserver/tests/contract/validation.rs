//! Schema validation and its causes.

use serde_json::{Value, json};

use crate::harness::{Cx, JSON_PATCH, Reply, widgets};

/// Posts a widget with this spec, under a schema whose spec has these properties.
async fn post(properties: Value, spec: Value) -> Reply {
    let cx = Cx::new().await;
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    let widgets = cx.crd("widgets", &schema, &json!({})).await;
    widgets.post("a", &spec).await
}

#[tokio::test]
async fn an_invalid_object_names_itself_and_its_kind() {
    let (_cx, widgets) = widgets().await;
    let reply = widgets.post("a", &json!({"text": "ABC"})).await;
    let text = "spec.text: Invalid value: \"ABC\": spec.text in body should match '^[a-z]+$'";
    reply.refuses(
        422,
        "Invalid",
        &format!("Widget.{} \"a\" is invalid: {text}", widgets.group),
    );
    assert_eq!(reply.body["details"]["name"], "a");
    assert_eq!(reply.body["details"]["kind"], "Widget");
    assert_eq!(reply.body["details"]["group"], widgets.group.as_str());
}

#[tokio::test]
async fn bounds_of_numbers() {
    let numbers = json!({
        "max": {"type": "integer", "maximum": 3}, "min": {"type": "integer", "minimum": 3},
        "many": {"type": "integer", "multipleOf": 2}, "half": {"type": "number", "maximum": 0.5},
    });
    post(numbers, json!({"max": 4, "min": 2, "many": 3, "half": 0.75})).await.refuses(422, "Invalid", "").causes(&[
        "FieldValueInvalid spec.max: Invalid value: 4: spec.max in body should be less than or equal to 3",
        "FieldValueInvalid spec.min: Invalid value: 2: spec.min in body should be greater than or equal to 3",
        "FieldValueInvalid spec.many: Invalid value: 3: spec.many in body should be a multiple of 2",
        "FieldValueInvalid spec.half: Invalid value: 0.75: spec.half in body should be less than or equal to 0.5",
    ]);
}

#[tokio::test]
async fn an_exclusive_maximum_with_a_fraction_refuses_the_integer_below() {
    let reply = post(
        json!({"n": {"type": "number", "maximum": 1.5, "exclusiveMaximum": true}}),
        json!({"n": 1}),
    )
    .await;
    reply
        .refuses(422, "Invalid", "")
        .causes(&["FieldValueInvalid spec.n: Invalid value: 1: spec.n in body should be less than 1"]);
}

#[tokio::test]
async fn lengths_of_strings_lists_and_maps() {
    let bounded = json!({
        "long": {"type": "string", "maxLength": 2}, "short": {"type": "string", "minLength": 2},
        "many": {"type": "array", "maxItems": 1, "items": {"type": "integer"}},
        "few": {"type": "array", "minItems": 2, "items": {"type": "integer"}},
        "full": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
        "empty": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
    });
    let spec = json!({"long": "abc", "short": "a", "many": [1, 2], "few": [1], "full": {"a": "1", "b": "2"}, "empty": {}});
    post(bounded, spec).await.refuses(422, "Invalid", "").causes(&[
        "FieldValueTooLong spec.long: Too long: may not be more than 2 bytes",
        "FieldValueInvalid spec.short: Invalid value: \"a\": spec.short in body should be at least 2 chars long",
        "FieldValueTooMany spec.many: Too many: 2: must have at most 1 item",
        "FieldValueInvalid spec.few: Invalid value: 1: spec.few in body should have at least 2 items",
        "FieldValueTooMany spec.full: Too many: 2: must have at most 1 item",
        "FieldValueInvalid spec.empty: Invalid value: 0: spec.empty in body should have at least 1 properties",
    ]);
}

#[tokio::test]
async fn enumerations() {
    let reply = post(
        json!({"s": {"type": "string", "enum": ["a", "b"]}}),
        json!({"s": "c"}),
    )
    .await;
    reply
        .refuses(422, "Invalid", "")
        .causes(&["FieldValueNotSupported spec.s: Unsupported value: \"c\": supported values: \"a\", \"b\""]);
}

#[tokio::test]
async fn required_members() {
    let nested = json!({"o": {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}});
    post(nested, json!({"o": {"a": ""}}))
        .await
        .refuses(422, "Invalid", "spec.o.b: Required value")
        .causes(&["FieldValueRequired spec.o.b: Required value"]);
}

#[tokio::test]
async fn a_wrong_type() {
    let reply = post(json!({"n": {"type": "integer"}}), json!({"n": "1"})).await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueTypeInvalid spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\"",
    ]);
}

#[tokio::test]
async fn items_and_entries_are_named_by_index_and_key() {
    let reply = post(
        json!({
            "l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 1}}}},
            "m": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 1}},
        }),
        json!({"l": [{"n": 1}, {"n": 2}], "m": {"k": 2}}),
    )
    .await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueInvalid spec.l[1].n: Invalid value: 2: spec.l[1].n in body should be less than or equal to 1",
        "FieldValueInvalid spec.m.k: Invalid value: 2: spec.m.k in body should be less than or equal to 1",
    ]);
}

#[tokio::test]
async fn formats_of_strings() {
    let format = |name: &str| json!({"type": "string", "format": name});
    let formats = json!({
        "time": format("date-time"), "day": format("date"), "span": format("duration"), "id": format("uuid"),
        "v4": format("ipv4"), "bytes": format("byte"), "odd": format("no-such-format"),
    });
    let good = json!({
        "time": "2026-01-01T00:00:00Z", "day": "2026-01-31", "span": "1h30m",
        "id": "6a1d1b0e-7c1f-4b3a-9d54-0a4a3a0d5e2f", "v4": "10.0.0.1", "bytes": "aGk=", "odd": "anything",
    });
    post(formats.clone(), good).await.is(201);
    let bad = json!({"time": "2026-01-01", "day": "2026-02-31", "span": "soon", "id": "x", "v4": "10.0.0", "bytes": "?"});
    post(formats, bad).await.refuses(422, "Invalid", "").causes(&[
        "FieldValueTypeInvalid spec.time: Invalid value: \"2026-01-01\": spec.time in body must be of type date-time: \"2026-01-01\"",
        "FieldValueTypeInvalid spec.day: Invalid value: \"2026-02-31\": spec.day in body must be of type date: \"2026-02-31\"",
        "FieldValueTypeInvalid spec.span: Invalid value: \"soon\": spec.span in body must be of type duration: \"soon\"",
        "FieldValueTypeInvalid spec.id: Invalid value: \"x\": spec.id in body must be of type uuid: \"x\"",
        "FieldValueTypeInvalid spec.v4: Invalid value: \"10.0.0\": spec.v4 in body must be of type ipv4: \"10.0.0\"",
        "FieldValueTypeInvalid spec.bytes: Invalid value: \"?\": spec.bytes in body must be of type byte: \"?\"",
    ]);
}

#[tokio::test]
async fn one_of_and_not() {
    let o = json!({"o": {
        "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }, "s": {"type": "string", "not": {"enum": ["x"]}}});
    post(o.clone(), json!({"o": {"a": ""}, "s": "y"})).await.is(201);
    post(o, json!({"o": {"a": "", "b": ""}, "s": "x"})).await.refuses(422, "Invalid", "").causes(&[
        "FieldValueInvalid <nil>: Invalid value: \"\": \"spec.o\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        "FieldValueInvalid <nil>: Invalid value: \"\": \"spec.s\" must not validate the schema (not)",
    ]);
}

#[tokio::test]
async fn int_or_string_takes_both_and_nothing_else() {
    let port = json!({"p": {"x-kubernetes-int-or-string": true}});
    post(port.clone(), json!({"p": 80})).await.is(201);
    post(port.clone(), json!({"p": "http"})).await.is(201);
    let reply = post(port, json!({"p": true})).await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueTypeInvalid spec.p: Invalid value: \"boolean\": spec.p in body must be of type integer,string: \"boolean\"",
    ]);
}

#[tokio::test]
async fn what_was_wrong_before_may_stay_and_not_change() {
    let cx = Cx::new().await;
    let schema = |more: Value| {
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": more, "m": {"type": "integer"},
        }}}})
    };
    let widgets = cx
        .crd("widgets", &schema(json!({"type": "integer"})), &json!({}))
        .await;
    widgets.post("a", &json!({"n": 5})).await.is(201);
    let patch = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/n/maximum", "value": 3}]);
    cx.patch(JSON_PATCH, &widgets.crd_path(), &patch).await.is(200);
    cx.until("the new schema holds", || async {
        cx.post(
            &format!("{}?dryRun=All", widgets.path),
            &widgets.object("b", &json!({"n": 5})),
        )
        .await
        .code
            == 422
    })
    .await;
    widgets.merge(&json!({"spec": {"m": 1}})).await.is(200);
    widgets.merge(&json!({"spec": {"n": 6}})).await.refuses(
        422,
        "Invalid",
        "should be less than or equal to 3",
    );
    widgets.merge(&json!({"spec": {"n": 3}})).await.is(200);
}

/// A workload of `kind` with this spec, in addition to the required fields.
fn workload(kind: &str, spec: &Value, pod: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}},
        },
    });
    json_patch::merge(&mut object["spec"], spec);
    json_patch::merge(&mut object["spec"]["template"]["spec"], pod);
    object
}

#[tokio::test]
async fn a_strategy_that_does_not_roll_says_nothing_about_rolling() {
    let cx = Cx::new().await;
    let rolling = json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}});
    let reply = cx
        .post(&cx.deployments(), &workload("Deployment", &rolling, &json!({})))
        .await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueForbidden spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ]);
    // Defaulted fields also conflict with an apply of only the type.
    let made = workload("Deployment", &json!({}), &json!({}));
    let path = format!("{}/a", cx.deployments());
    cx.apply("x", &path, &made).await.is(201);
    let recreate = workload(
        "Deployment",
        &json!({"strategy": {"type": "Recreate"}}),
        &json!({}),
    );
    cx.apply("x", &path, &recreate).await.refuses(
        422,
        "Invalid",
        "Deployment.apps \"a\" is invalid: spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is \
         'Recreate'",
    );
    let sets = cx.deployments().replace("deployments", "statefulsets");
    let rolling = json!({"serviceName": "a", "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 0}}});
    let reply = cx
        .post(&sets, &workload("StatefulSet", &rolling, &json!({})))
        .await;
    assert!(
        reply
            .refuses(422, "Invalid", "")
            .message()
            .ends_with("only allowed for updateStrategy 'RollingUpdate'"),
        "{}",
        reply.text
    );
    let sets = cx.deployments().replace("deployments", "daemonsets");
    let rolling = json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}}});
    cx.post(&sets, &workload("DaemonSet", &rolling, &json!({})))
        .await
        .is(201);
}

#[tokio::test]
async fn a_volume_has_one_type_and_a_variable_one_source() {
    let cx = Cx::new().await;
    let pod = json!({
        "volumes": [{"name": "v", "emptyDir": {}, "configMap": {"name": "c"}}],
        "containers": [{
            "name": "main", "image": "nginx",
            "env": [{"name": "A", "value": "x", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
        }],
    });
    let reply = cx
        .post(&cx.deployments(), &workload("Deployment", &json!({}), &pod))
        .await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueForbidden spec.template.spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
        "FieldValueInvalid spec.template.spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` \
         is not empty",
    ]);
}

#[tokio::test]
async fn names_of_ports_of_a_container_are_unique() {
    let cx = Cx::new().await;
    let ports = json!([{"name": "http", "containerPort": 80}, {"name": "http", "containerPort": 8080}]);
    let pod = json!({"containers": [{"name": "main", "image": "nginx", "ports": ports}]});
    let reply = cx
        .post(&cx.deployments(), &workload("Deployment", &json!({}), &pod))
        .await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueDuplicate spec.template.spec.containers[0].ports[1].name: Duplicate value: \"http\"",
    ]);
}
