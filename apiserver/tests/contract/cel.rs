//! CEL rules of CRDs.

use serde_json::{Value, json};

use crate::harness::{CRDS, Cx, Kind, widgets};

/// A CRD whose spec has these properties and rules.
async fn ruled(cx: &Cx, properties: Value, rules: Value) -> Kind {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": properties, "x-kubernetes-validations": rules},
    }});
    cx.crd("widgets", &schema, &json!({})).await
}

#[tokio::test]
async fn a_transition_rule_has_its_reason_and_field() {
    let (_cx, widgets) = widgets().await;
    widgets.post("a", &json!({"text": "a"})).await.is(201);
    let reply = widgets.merge(&json!({"spec": {"text": "b"}})).await;
    reply
        .refuses(422, "Invalid", "spec.text: Forbidden: text is immutable")
        .causes(&["FieldValueForbidden spec.text: Forbidden: text is immutable"]);
    widgets.merge(&json!({"spec": {"num": 1}})).await.is(200);
}

#[tokio::test]
async fn rules_without_a_message_name_themselves_and_message_expressions_win() {
    let cx = Cx::new().await;
    let widgets = ruled(
        &cx,
        json!({"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 5}}),
        json!([
            {"rule": "self.n > 1"},
            {"rule": "self.s != 'x'", "message": "static", "messageExpression": "'s is ' + self.s"},
        ]),
    )
    .await;
    let reply = widgets.post("a", &json!({"n": 0, "s": "x"})).await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueInvalid spec: Invalid value: failed rule: self.n > 1",
        "FieldValueInvalid spec: Invalid value: s is x",
    ]);
}

#[tokio::test]
async fn a_rule_on_a_scalar_prints_the_value() {
    let cx = Cx::new().await;
    let properties = json!({"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1", "message": "too small"}]}});
    let widgets = ruled(&cx, properties, json!([])).await;
    let reply = widgets.post("a", &json!({"n": 0})).await;
    reply
        .refuses(422, "Invalid", "")
        .causes(&["FieldValueInvalid spec.n: Invalid value: 0: too small"]);
}

#[tokio::test]
async fn a_rule_that_cannot_be_evaluated_is_broken() {
    let cx = Cx::new().await;
    let widgets = ruled(
        &cx,
        json!({"n": {"type": "integer"}}),
        json!([{"rule": "self.n > 1"}]),
    )
    .await;
    let reply = widgets.post("a", &json!({})).await;
    reply.refuses(422, "Invalid", "").causes(&[
        "FieldValueInvalid spec: Invalid value: \"object\": no such key: n evaluating rule: self.n > 1",
    ]);
}

#[tokio::test]
async fn transition_rules_correlate_list_maps_by_key() {
    let cx = Cx::new().await;
    let widgets = ruled(
        &cx,
        json!({"items": {
            "type": "array", "maxItems": 10, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "v may not fall"}]},
        }}),
        json!([]),
    )
    .await;
    let items = |items: Value| json!({"spec": {"items": items}});
    widgets
        .post(
            "a",
            &items(json!([{"name": "a", "v": 1}, {"name": "b", "v": 5}]))["spec"],
        )
        .await
        .is(201);
    let swapped = json!([{"name": "b", "v": 5}, {"name": "a", "v": 1}, {"name": "c", "v": 0}]);
    widgets.merge(&items(swapped)).await.is(200);
    let reply = widgets
        .merge(&items(json!([{"name": "a", "v": 2}, {"name": "b", "v": 4}])))
        .await;
    reply
        .refuses(422, "Invalid", "")
        .causes(&["FieldValueInvalid spec.items[1]: Invalid value: v may not fall"]);
}

#[tokio::test]
async fn a_transition_rule_below_an_atomic_list_or_a_set_is_refused() {
    let cx = Cx::new().await;
    for more in [json!({}), json!({"x-kubernetes-list-type": "set"})] {
        let mut list = json!({"type": "array", "maxItems": 3, "items": {
            "type": "string", "maxLength": 3, "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
        }});
        for (key, value) in more.as_object().unwrap() {
            list[key] = value.clone();
        }
        let schema = json!({"type": "object", "properties": {"l": list}});
        let reply = cx
            .post(CRDS, &Kind::of(&cx, "widgets").definition(&schema, &json!({})))
            .await;
        reply.refuses(
            422,
            "Invalid",
            "oldSelf cannot be used on the uncorrelatable portion of the schema",
        );
    }
}

#[tokio::test]
async fn optional_old_self_runs_on_create() {
    let cx = Cx::new().await;
    let widgets = ruled(
        &cx,
        json!({"n": {"type": "integer"}}),
        json!([
            {"rule": "oldSelf.hasValue() || self.n == 0", "message": "starts at 0", "optionalOldSelf": true},
        ]),
    )
    .await;
    widgets
        .post("a", &json!({"n": 1}))
        .await
        .refuses(422, "Invalid", "starts at 0");
    widgets.post("a", &json!({"n": 0})).await.is(201);
    widgets.merge(&json!({"spec": {"n": 1}})).await.is(200);
}

#[tokio::test]
async fn rules_know_durations_quantities_times_and_macros() {
    let cx = Cx::new().await;
    let widgets = ruled(
        &cx,
        json!({
            "span": {"type": "string", "format": "duration"}, "size": {"type": "string", "maxLength": 20},
            "at": {"type": "string", "format": "date-time"}, "a-b": {"type": "integer"},
            "list": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}},
            "map": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 5}},
            "port": {"x-kubernetes-int-or-string": true},
        }),
        json!([
            {"rule": "self.span > duration('59s')"},
            {"rule": "quantity(self.size).isGreaterThan(quantity('1Mi'))"},
            {"rule": "self.at < timestamp('2027-01-01T00:00:00Z')"},
            {"rule": "self.a__dash__b == 1"},
            {"rule": "self.list.all(x, x.startsWith('a')) && self.list.exists_one(x, x == 'ab')"},
            {"rule": "self.map.all(k, self.map[k].size() < 3) && 'a-b' in self.map"},
            {"rule": "type(self.port) == int || self.port == '10%'"},
            {"rule": "self.?list[?0].orValue('none') == 'ab'"},
        ]),
    )
    .await;
    let spec = json!({
        "span": "1m", "size": "1Gi", "at": "2026-01-01T00:00:00Z", "a-b": 1, "list": ["ab", "ac"],
        "map": {"a-b": "1"}, "port": "10%",
    });
    widgets.post("a", &spec).await.is(201);
}

#[tokio::test]
async fn a_rule_at_the_root_sees_the_name() {
    let cx = Cx::new().await;
    let schema = json!({
        "type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "x-kubernetes-validations": [{"rule": "self.metadata.name.size() <= 3", "message": "name too long"}],
    });
    let widgets = cx.crd("widgets", &schema, &json!({})).await;
    widgets.post("abc", &json!({})).await.is(201);
    let reply = widgets.post("abcd", &json!({})).await;
    reply
        .refuses(422, "Invalid", "")
        .causes(&["FieldValueInvalid <nil>: Invalid value: name too long"]);
}

#[tokio::test]
async fn rules_that_do_not_compile_refuse_the_crd() {
    let cx = Cx::new().await;
    for (rule, expect) in [
        (
            json!({"rule": "self.bogus > 1"}),
            "compilation failed: ERROR: <input>:1:5: undefined field 'bogus'",
        ),
        (
            json!({"rule": "other.n > 1"}),
            "undeclared reference to 'other' (in container '')",
        ),
        (
            json!({"rule": "self.n >"}),
            "compilation failed: ERROR: <input>:1:",
        ),
        (
            json!({"rule": " "}),
            ".rule: Required value: rule is not specified",
        ),
        (
            json!({"rule": "self.n > 1", "fieldPath": ".nope"}),
            "must be a valid path",
        ),
        (
            json!({"rule": "self.n > 1", "reason": "Odd"}),
            "Unsupported value: \"Odd\"",
        ),
        (
            json!({"rule": "self.n > 1", "optionalOldSelf": true}),
            "may not be set if oldSelf is not used in rule",
        ),
    ] {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [rule]},
        }});
        let reply = cx
            .post(CRDS, &Kind::of(&cx, "widgets").definition(&schema, &json!({})))
            .await;
        reply.refuses(422, "Invalid", expect);
    }
}

#[tokio::test]
async fn what_a_rule_refuses_may_stay_unchanged() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({"num": 5})).await.is(201);
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0/rule";
    let patch = json!([{"op": "replace", "path": path, "value": "!has(self.num) || self.num <= 1"}]);
    cx.patch(crate::harness::JSON_PATCH, &widgets.crd_path(), &patch)
        .await
        .is(200);
    cx.until("the new rule holds", || async {
        cx.post(
            &format!("{}?dryRun=All", widgets.path),
            &widgets.object("b", &json!({"num": 5})),
        )
        .await
        .code
            == 422
    })
    .await;
    widgets
        .merge(&json!({"metadata": {"labels": {"l": "1"}}}))
        .await
        .is(200);
    widgets
        .merge(&json!({"spec": {"flag": true}}))
        .await
        .refuses(422, "Invalid", "num must be at most 10");
}
