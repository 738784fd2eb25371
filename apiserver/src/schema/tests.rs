//! Schemas and validation of objects, with the messages of the real server.
#![allow(clippy::needless_pass_by_value)]

use serde_json::{Value, json};

use super::{Changed, ListType, MapType, Schema};

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

fn parsed(schema: &Value) -> Schema {
    Schema::parse(schema).unwrap_or_else(|causes| panic!("{causes:#?}"))
}

fn lines(causes: &[super::Cause]) -> Vec<String> {
    causes
        .iter()
        .map(|cause| format!("{} {cause}", cause.reason))
        .collect()
}

/// The causes for a `spec` with these properties.
fn causes(properties: Value, spec: Value) -> Vec<String> {
    lines(&parsed(&object(properties)).validate(&json!({"spec": spec}), None, &Changed::Whole))
}

fn check(properties: Value, spec: Value, expect: &[&str]) {
    assert_eq!(causes(properties, spec), expect);
}

#[test]
fn values_out_of_bounds() {
    check(
        json!({"n": {"type": "integer", "maximum": 10, "minimum": 1}}),
        json!({"n": 11}),
        &["FieldValueInvalid spec.n: Invalid value: 11: spec.n in body should be less than or equal to 10"],
    );
    check(
        json!({"n": {"type": "number", "minimum": 0.5}}),
        json!({"n": 0.25}),
        &[
            "FieldValueInvalid spec.n: Invalid value: 0.25: spec.n in body should be greater than or equal to 0.5",
        ],
    );
    check(
        json!({"n": {"type": "number", "maximum": 1.5, "exclusiveMaximum": true}}),
        json!({"n": 1}),
        &["FieldValueInvalid spec.n: Invalid value: 1: spec.n in body should be less than 1"],
    );
    check(
        json!({"s": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2}}),
        json!({"s": "ABC"}),
        &["FieldValueInvalid spec.s: Invalid value: \"ABC\": spec.s in body should match '^[a-z]+$'"],
    );
    check(
        json!({"s": {"type": "string", "maxLength": 2}}),
        json!({"s": "abc"}),
        &["FieldValueTooLong spec.s: Too long: may not be more than 2 bytes"],
    );
    check(
        json!({"l": {"type": "array", "maxItems": 1, "items": {"type": "integer"}}}),
        json!({"l": [1, 2]}),
        &["FieldValueTooMany spec.l: Too many: 2: must have at most 1 item"],
    );
    check(
        json!({"l": {"type": "array", "minItems": 1, "items": {"type": "integer"}}}),
        json!({"l": []}),
        &["FieldValueInvalid spec.l: Invalid value: 0: spec.l in body should have at least 1 items"],
    );
    check(
        json!({"s": {"type": "string", "enum": ["a", "b"]}}),
        json!({"s": "c"}),
        &["FieldValueNotSupported spec.s: Unsupported value: \"c\": supported values: \"a\", \"b\""],
    );
}

#[test]
fn wrong_types_and_what_is_required() {
    check(
        json!({"n": {"type": "integer"}}),
        json!({"n": "1"}),
        &[
            "FieldValueTypeInvalid spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\"",
        ],
    );
    check(
        json!({"o": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}}),
        json!({"o": {}}),
        &["FieldValueRequired spec.o.a: Required value"],
    );
    check(
        json!({"m": {"type": "object", "additionalProperties": {"type": "integer"}}}),
        json!({"m": {"k": "v"}}),
        &[
            "FieldValueTypeInvalid spec.m.k: Invalid value: \"string\": spec.m.k in body must be of type integer: \"string\"",
        ],
    );
    check(
        json!({"l": {"type": "array", "items": {"type": "integer"}}}),
        json!({"l": [1, true]}),
        &[
            "FieldValueTypeInvalid spec.l[1]: Invalid value: \"boolean\": spec.l[1] in body must be of type integer: \"boolean\"",
        ],
    );
    check(
        json!({"n": {"type": "integer", "nullable": true}, "m": {"type": "integer"}}),
        json!({"n": null, "m": null}),
        &[
            "FieldValueTypeInvalid spec.m: Invalid value: \"null\": spec.m in body must be of type integer: \"null\"",
        ],
    );
    check(
        json!({"n": {"x-kubernetes-int-or-string": true}}),
        json!({"n": 1}),
        &[],
    );
    check(
        json!({"n": {"x-kubernetes-int-or-string": true}}),
        json!({"n": "50%"}),
        &[],
    );
    check(
        json!({"n": {"x-kubernetes-int-or-string": true}}),
        json!({"n": true}),
        &[
            "FieldValueTypeInvalid spec.n: Invalid value: \"boolean\": spec.n in body must be of type integer,string: \"boolean\"",
        ],
    );
}

#[test]
fn formats() {
    let ok = |format: &str, text: &str| {
        causes(
            json!({"s": {"type": "string", "format": format}}),
            json!({"s": text}),
        )
        .is_empty()
    };
    for (format, good, bad) in [
        ("date-time", "2026-01-01T00:00:00Z", "yesterday"),
        ("date-time", "2026-01-01T00:00:00.5+02:00", "2026-01-01"),
        ("date", "2026-01-31", "2026-02-31"),
        ("duration", "1h30m", "1 fortnight"),
        ("duration", "-1.5s", "s"),
        ("byte", "aGk=", "?"),
        ("uuid", "6a1d1b0e-7c1f-4b3a-9d54-0a4a3a0d5e2f", "6a1d"),
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("email", "a@b.example", "a"),
        ("hostname", "a.example", "-a"),
        ("uri", "https://a.example/x", "a b"),
        ("mac", "00:11:22:33:44:55", "00:11"),
    ] {
        assert!(ok(format, good), "{format} {good}");
        assert!(!ok(format, bad), "{format} {bad}");
    }
    assert!(ok("no-such-format", "anything"));
    check(
        json!({"s": {"type": "string", "format": "date-time"}}),
        json!({"s": "x"}),
        &[
            "FieldValueTypeInvalid spec.s: Invalid value: \"x\": spec.s in body must be of type date-time: \"x\"",
        ],
    );
}

#[test]
fn junctors() {
    let either = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(json!({"o": either}), json!({"o": {"a": "1"}}), &[]);
    check(
        json!({"o": either}),
        json!({"o": {"a": "1", "b": "2"}}),
        &[
            "FieldValueInvalid <nil>: Invalid value: \"\": \"spec.o\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ],
    );
    check(
        json!({"o": either}),
        json!({"o": {}}),
        &[
            "FieldValueInvalid <nil>: Invalid value: \"\": \"spec.o\" must validate one and only one schema (oneOf). Found none valid",
            "FieldValueRequired spec.o.a: Required value",
        ],
    );
    check(
        json!({"s": {"type": "string", "not": {"enum": ["x"]}}}),
        json!({"s": "x"}),
        &["FieldValueInvalid <nil>: Invalid value: \"\": \"spec.s\" must not validate the schema (not)"],
    );
}

#[test]
fn sets_and_list_maps_have_each_item_once() {
    let set = json!({"l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}});
    check(
        set,
        json!({"l": ["a", "b", "a", "a"]}),
        &["FieldValueDuplicate spec.l[2]: Duplicate value: \"a\""],
    );
    let map = json!({"l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}});
    check(
        map,
        json!({"l": [{"k": "a"}, {"k": "a"}]}),
        &["FieldValueDuplicate spec.l[1]: Duplicate value: {\"k\":\"a\"}"],
    );
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let schema = parsed(&object(json!({
        "known": {"type": "object", "properties": {"a": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "inner": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"x": {"type": "string"}}},
    })));
    let mut object = json!({
        "apiVersion": "v", "kind": "K", "metadata": {"name": "n", "bogus": 1}, "extra": 1,
        "spec": {
            "known": {"a": "1", "b": "2"}, "free": {"any": {"thing": 1}, "inner": {"a": "1", "z": 1}},
            "list": [{"a": "1"}, {"b": 1}], "map": {"k": {"b": 1}},
            "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": "1", "y": 1},
        },
    });
    assert_eq!(
        schema.prune(&mut object, &Changed::Whole),
        [
            "extra",
            "metadata.bogus",
            "spec.embedded.y",
            "spec.free.inner.z",
            "spec.known.b",
            "spec.list[1].b",
            "spec.map.k.b",
        ]
    );
    assert_eq!(
        object,
        json!({
            "apiVersion": "v", "kind": "K", "metadata": {"name": "n"},
            "spec": {
                "known": {"a": "1"}, "free": {"any": {"thing": 1}, "inner": {"a": "1"}}, "list": [{"a": "1"}, {}],
                "map": {"k": {}}, "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": "1"},
            },
        })
    );
}

#[test]
fn defaults_come_in_from_outside_to_inside_and_nulls_go() {
    let schema = parsed(&object(json!({
        "outer": {"type": "object", "default": {}, "properties": {"inner": {"type": "integer", "default": 5}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}},
        "nullable": {"type": "string", "nullable": true, "default": "d"},
        "plain": {"type": "string"},
        "defaulted": {"type": "string", "default": "d"},
    })));
    let mut object =
        json!({"spec": {"list": [{}, {"a": "y"}], "nullable": null, "plain": null, "defaulted": null}});
    schema.default(&mut object, &Changed::Whole);
    assert_eq!(
        object,
        json!({"spec": {
            "outer": {"inner": 5}, "list": [{"a": "x"}, {"a": "y"}], "nullable": null, "defaulted": "d",
        }})
    );
    // An absent spec has no defaults below it.
    let mut empty = json!({});
    schema.default(&mut empty, &Changed::Whole);
    assert_eq!(empty, json!({}));
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    let refused = |schema: Value, expect: &[&str]| {
        assert_eq!(lines(&Schema::parse(&schema).map(|_| ()).unwrap_err()), expect);
    };
    refused(
        json!({}),
        &["FieldValueRequired openAPIV3Schema.type: Required value: must not be empty at the root"],
    );
    refused(
        object(json!({"a": {}})),
        &[
            "FieldValueRequired openAPIV3Schema.properties[spec].properties[a].type: Required value: must not be empty for specified object fields",
        ],
    );
    refused(
        object(json!({"a": {"type": "array"}})),
        &[
            "FieldValueRequired openAPIV3Schema.properties[spec].properties[a].items: Required value: must be specified",
        ],
    );
    refused(
        object(
            json!({"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}),
        ),
        &[
            "FieldValueRequired openAPIV3Schema.properties[spec].properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    );
    refused(
        object(json!({"a": {"type": "string", "anyOf": [{"type": "string"}]}})),
        &[
            "FieldValueForbidden openAPIV3Schema.properties[spec].properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ],
    );
    refused(
        object(json!({"a": {"type": "integer", "default": "x"}})),
        &[
            "FieldValueTypeInvalid openAPIV3Schema.properties[spec].properties[a].default: Invalid value: \"string\": openAPIV3Schema.properties[spec].properties[a].default in body must be of type integer: \"string\"",
        ],
    );
    refused(
        object(
            json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}),
        ),
        &[
            "FieldValueForbidden openAPIV3Schema.properties[spec].properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ],
    );
    refused(
        object(json!({"a": {"$ref": "#/x", "type": "string"}})),
        &[
            "FieldValueForbidden openAPIV3Schema.properties[spec].properties[a].$ref: Forbidden: $ref is not supported",
        ],
    );
    parsed(&object(
        json!({"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}),
    ));
}

#[test]
fn rules_that_do_not_compile_are_refused() {
    let refused = |rule: Value, expect: &str| {
        let mut schema = object(json!({"n": {"type": "integer"}, "text": {"type": "string"}}));
        schema["properties"]["spec"]["x-kubernetes-validations"] = json!([rule]);
        let causes = lines(&Schema::parse(&schema).map(|_| ()).unwrap_err());
        assert!(
            causes.len() == 1 && causes[0].contains(expect),
            "{causes:#?} has not {expect}"
        );
    };
    refused(
        json!({"rule": ""}),
        "[0].rule: Required value: rule is not specified",
    );
    refused(
        json!({"rule": "self.n ==", "message": "m"}),
        "compilation failed: ERROR: <input>:1:",
    );
    refused(
        json!({"rule": "self.bogus > 1"}),
        "compilation failed: ERROR: <input>:1:5: undefined field 'bogus'\n | self.bogus > 1\n | ....^",
    );
    refused(
        json!({"rule": "other.n > 1"}),
        "undeclared reference to 'other' (in container '')",
    );
    refused(
        json!({"rule": "self.n > 1", "fieldPath": ".nope"}),
        "[0].fieldPath: Invalid value: \".nope\": must be a valid path",
    );
    refused(
        json!({"rule": "self.n > 1", "reason": "Odd"}),
        "[0].reason: Unsupported value: \"Odd\"",
    );
    refused(
        json!({"rule": "self.n > 1", "optionalOldSelf": true}),
        "may not be set if oldSelf is not used in rule",
    );
    let atomic = object(
        json!({"l": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}),
    );
    let causes = lines(&Schema::parse(&atomic).map(|_| ()).unwrap_err());
    assert!(causes[0].ends_with("oldSelf cannot be used on the uncorrelatable portion of the schema within openAPIV3Schema.properties[spec].properties[l]"), "{causes:?}");
}

/// A spec with these properties and rules at `spec`.
fn ruled(properties: Value, rules: Value) -> Schema {
    let mut schema = object(properties);
    schema["properties"]["spec"]["x-kubernetes-validations"] = rules;
    parsed(&schema)
}

#[test]
fn rules_and_what_they_say() {
    let widget = ruled(
        json!({"num": {"type": "integer"}, "text": {"type": "string", "pattern": "^[a-z]+$"}}),
        json!([
            {"rule": "self.num <= 10", "message": "num must be at most 10"},
            {"rule": "!has(oldSelf.text) || self.text == oldSelf.text", "message": "text is immutable",
             "reason": "FieldValueForbidden", "fieldPath": ".text"},
        ]),
    );
    let of = |spec: Value| json!({"spec": spec});
    let both = |new: Value, old: Value| lines(&widget.validate(&of(new), Some(&of(old)), &Changed::Whole));
    assert_eq!(
        lines(&widget.validate(&of(json!({"num": 11})), None, &Changed::Whole)),
        ["FieldValueInvalid spec: Invalid value: num must be at most 10"]
    );
    assert_eq!(
        both(json!({"num": 1, "text": "b"}), json!({"num": 1, "text": "a"})),
        ["FieldValueForbidden spec.text: Forbidden: text is immutable"]
    );
    assert_eq!(
        both(json!({"num": 1, "text": "a"}), json!({"num": 1, "text": "a"})),
        Vec::<String>::new()
    );
    assert_eq!(
        lines(&widget.validate(&of(json!({"num": 11, "text": "ABC"})), None, &Changed::Whole)),
        [
            "FieldValueInvalid spec.text: Invalid value: \"ABC\": spec.text in body should match '^[a-z]+$'",
            "FieldValueInvalid spec: Invalid value: num must be at most 10",
        ]
    );
    assert_eq!(
        lines(&widget.validate(&of(json!({"num": "x"})), None, &Changed::Whole)),
        [
            "FieldValueTypeInvalid spec.num: Invalid value: \"string\": spec.num in body must be of type integer: \"string\"",
            "FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ]
    );
    // The rule needs an absent field.
    assert_eq!(
        lines(&widget.validate(&of(json!({})), None, &Changed::Whole)),
        [
            "FieldValueInvalid spec: Invalid value: \"object\": no such key: num evaluating rule: num must be at most 10",
        ]
    );
}

#[test]
fn rules_without_message_name_themselves_and_message_expressions_win() {
    let schema = ruled(
        json!({"n": {"type": "integer"}}),
        json!([
            {"rule": "self.n > 1"},
            {"rule": "self.n > 2", "message": "static", "messageExpression": "'n is ' + string(self.n)"},
        ]),
    );
    assert_eq!(
        lines(&schema.validate(&json!({"spec": {"n": 0}}), None, &Changed::Whole)),
        [
            "FieldValueInvalid spec: Invalid value: failed rule: self.n > 1",
            "FieldValueInvalid spec: Invalid value: n is 0",
        ]
    );
}

#[test]
fn scalars_print_their_value() {
    let schema = parsed(&object(
        json!({"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}}),
    ));
    assert_eq!(
        lines(&schema.validate(&json!({"spec": {"n": 0}}), None, &Changed::Whole)),
        ["FieldValueInvalid spec.n: Invalid value: 0: failed rule: self > 1",]
    );
}

#[test]
fn list_maps_are_correlated_by_key() {
    let item = json!({"type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "v may not fall"}]});
    let schema = parsed(&object(json!({"l": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item,
    }})));
    let of = |items: Value| json!({"spec": {"l": items}});
    let old = of(json!([{"k": "a", "v": 1}, {"k": "b", "v": 5}]));
    let swapped = of(json!([{"k": "b", "v": 5}, {"k": "a", "v": 1}, {"k": "c", "v": 0}]));
    assert_eq!(
        lines(&schema.validate(&swapped, Some(&old), &Changed::Whole)),
        Vec::<String>::new()
    );
    let fallen = of(json!([{"k": "b", "v": 4}, {"k": "a", "v": 2}]));
    assert_eq!(
        lines(&schema.validate(&fallen, Some(&old), &Changed::Whole)),
        ["FieldValueInvalid spec.l[0]: Invalid value: v may not fall"]
    );
}

#[test]
fn optional_old_self_runs_on_create() {
    let schema = ruled(
        json!({"n": {"type": "integer"}}),
        json!([
            {"rule": "oldSelf.hasValue() || self.n == 0", "message": "starts at 0", "optionalOldSelf": true},
            {"rule": "self.n <= oldSelf.orValue(self).n + 1", "message": "by one", "optionalOldSelf": true},
        ]),
    );
    let of = |n: i64| json!({"spec": {"n": n}});
    assert_eq!(
        lines(&schema.validate(&of(1), None, &Changed::Whole)),
        ["FieldValueInvalid spec: Invalid value: starts at 0"]
    );
    assert_eq!(
        lines(&schema.validate(&of(1), Some(&of(0)), &Changed::Whole)),
        Vec::<String>::new()
    );
    assert_eq!(
        lines(&schema.validate(&of(2), Some(&of(0)), &Changed::Whole)),
        ["FieldValueInvalid spec: Invalid value: by one"]
    );
}

#[test]
fn rules_see_types_formats_and_escaped_names() {
    let schema = |properties: Value, rule: &str| ruled(properties, json!([{"rule": rule}]));
    let holds = |properties: Value, rule: &str, spec: Value| {
        let causes = lines(&schema(properties, rule).validate(
            &json!({"metadata": {"name": "n"}, "spec": spec}),
            None,
            &Changed::Whole,
        ));
        assert_eq!(causes, Vec::<String>::new(), "{rule}");
    };
    holds(
        json!({"d": {"type": "string", "format": "duration"}}),
        "self.d > duration('59s')",
        json!({"d": "1m"}),
    );
    holds(
        json!({"d": {"type": "string"}}),
        "duration(self.d) <= duration('1h')",
        json!({"d": "30m"}),
    );
    holds(
        json!({"t": {"type": "string", "format": "date-time"}}),
        "self.t < timestamp('2027-01-01T00:00:00Z')",
        json!({"t": "2026-01-01T00:00:00Z"}),
    );
    holds(
        json!({"q": {"type": "string"}}),
        "quantity(self.q).isGreaterThan(quantity('1Mi'))",
        json!({"q": "1Gi"}),
    );
    holds(json!({"n": {"type": "number"}}), "self.n == 1.0", json!({"n": 1}));
    holds(
        json!({"b": {"type": "string", "format": "byte"}}),
        "size(self.b) == 2",
        json!({"b": "aGk="}),
    );
    holds(
        json!({"a-b": {"type": "integer"}, "namespace": {"type": "string"}}),
        "self.a__dash__b == 1 && self.__namespace__ == 'x'",
        json!({"a-b": 1, "namespace": "x"}),
    );
    holds(
        json!({"l": {"type": "array", "items": {"type": "string"}}}),
        "self.l.all(x, x.startsWith('a')) && self.l.exists_one(x, x == 'ab')",
        json!({"l": ["ab", "ac"]}),
    );
    holds(
        json!({"m": {"type": "object", "additionalProperties": {"type": "string"}}}),
        "self.m.all(k, k.size() < 9) && 'a-b' in self.m",
        json!({"m": {"a-b": "1"}}),
    );
    holds(
        json!({"p": {"x-kubernetes-int-or-string": true}}),
        "type(self.p) == int ? self.p > 0 : self.p.matches('^[0-9]+%$')",
        json!({"p": "10%"}),
    );
    holds(
        json!({"a": {"type": "string"}, "b": {"type": "string"}}),
        "has(self.a) != has(self.b)",
        json!({"a": ""}),
    );
    holds(
        json!({"o": {"type": "object", "properties": {"p": {"type": "object", "properties": {"q": {"type": "string"}}}}}}),
        "self.?o.p.q.orValue('x') == 'x' && self.?o.?p.hasValue() && !self.o.?p.q.hasValue()",
        json!({"o": {"p": {}}}),
    );
    holds(
        json!({"s": {"type": "string"}}),
        "self.?s.orValue('x') == 'x'",
        json!({}),
    );
    holds(
        json!({"u": {"type": "string"}}),
        "url(self.u).getScheme() == 'https' && isURL(self.u)",
        json!({"u": "https://a.example/x"}),
    );
}

#[test]
fn rules_at_the_root_see_the_name() {
    let mut schema = object(json!({"n": {"type": "integer"}}));
    schema["x-kubernetes-validations"] =
        json!([{"rule": "self.metadata.name.size() <= 3", "message": "name too long"}]);
    let schema = parsed(&schema);
    assert_eq!(
        lines(&schema.validate(&json!({"metadata": {"name": "long-name"}}), None, &Changed::Whole)),
        ["FieldValueInvalid <nil>: Invalid value: name too long",]
    );
}

#[test]
fn what_was_wrong_before_and_did_not_change_is_let_through() {
    let schema = ruled(
        json!({"n": {"type": "integer", "maximum": 10}, "m": {"type": "integer"}}),
        json!([{"rule": "self.m < 5", "message": "m too large"}]),
    );
    let old = json!({"spec": {"n": 11, "m": 7}});
    assert_eq!(
        lines(&schema.validate(&old, Some(&old), &Changed::Whole)),
        Vec::<String>::new()
    );
    let touched = json!({"spec": {"n": 11, "m": 8}});
    assert_eq!(
        lines(&schema.validate(&touched, Some(&old), &Changed::Whole)),
        ["FieldValueInvalid spec: Invalid value: m too large"]
    );
}

#[test]
fn list_and_map_types_by_path() {
    let schema = parsed(&object(json!({
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {}}}}},
        "plain": {"type": "array", "items": {"type": "string"}},
    })));
    assert_eq!(schema.list_type(&["spec", "set"]), Some(ListType::Set));
    assert_eq!(schema.list_type(&["spec", "map"]), Some(ListType::Map));
    assert_eq!(schema.map_keys(&["spec", "map"]), ["k"]);
    assert_eq!(schema.list_type(&["spec", "plain"]), Some(ListType::Atomic));
    assert_eq!(
        schema.map_type(&["spec", "map", "*", "whole"]),
        Some(MapType::Atomic)
    );
    assert_eq!(schema.map_type(&["spec"]), Some(MapType::Granular));
    assert_eq!(schema.list_type(&["spec"]), None);
}

/// For every write to a settled object, the check of the changed parts says what the check of all says.
#[test]
fn the_changed_parts_of_a_settled_object_are_enough() {
    let item = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": {"type": "string"}, "size": {"type": "integer", "maximum": 9, "default": 1},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        },
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size"}, {"rule": "self.name != 'none'"}],
    });
    let schema = parsed(&object(json!({
        "items": {
            "type": "array", "maxItems": 3, "items": item,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        },
        "plain": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}}},
        "flag": {"type": "boolean"},
    })));
    let old = json!({"spec": {
        "items": [{"name": "a", "size": 2, "tags": ["x"]}, {"name": "b", "size": 1}],
        "plain": [{"n": 1}, {"n": 2}],
    }});
    assert!(schema.is_settled(&old, &Changed::Whole));
    let at = |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    let (mut refused, mut accepted) = (0, 0);
    for patch in [
        at("/spec/items/0/size", json!(1)),
        at("/spec/items/0/size", json!(3)),
        at("/spec/items/0/size", json!(10)),
        at("/spec/items/0/size", json!(null)),
        at("/spec/items/1/name", json!("a")),
        at("/spec/items/1/name", json!("none")),
        at("/spec/items/1", json!({"name": "c", "unknown": 1})),
        at("/spec/items/1", json!({"name": "c", "tags": ["y", "y"]})),
        at("/spec/items/0/tags/0", json!(7)),
        at("/spec/plain/1/n", json!(-1)),
        at("/spec/plain/1", json!({"n": 5, "m": 1})),
        at("/spec", json!({"flag": "no"})),
        json!([{"op": "add", "path": "/spec/items/-", "value": {"name": "c"}}]),
        json!([{"op": "add", "path": "/spec/items/0", "value": {"name": "b"}}]),
        json!([{"op": "add", "path": "/spec/flag", "value": 1}]),
        json!([{"op": "remove", "path": "/spec/items/0/name"}]),
        json!([{"op": "remove", "path": "/spec/items/0"}, {"op": "replace", "path": "/spec/plain/0/n", "value": -2}]),
        json!([
            {"op": "add", "path": "/spec/items/-", "value": {"name": "c"}},
            {"op": "add", "path": "/spec/items/-", "value": {"name": "d"}},
        ]),
        json!([]),
    ] {
        let operations: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
        let write = |changed: &Changed| {
            let mut new = old.clone();
            json_patch::patch(&mut new, &operations).unwrap();
            let dropped = schema.prune(&mut new, changed);
            schema.default(&mut new, changed);
            let causes = lines(&schema.validate(&new, Some(&old), changed));
            (new, dropped, causes)
        };
        let whole = write(&Changed::Whole);
        let changed = Changed::by_json_patch(&operations);
        assert_eq!(write(&changed), whole, "{patch}");
        if whole.2.is_empty() {
            accepted += 1;
            let settled = |changed| schema.is_settled(&whole.0, changed);
            assert!(settled(&changed) && settled(&Changed::Whole), "{patch}");
        } else {
            refused += 1;
        }
    }
    assert!(
        accepted >= 5 && refused >= 10,
        "{accepted} accepted, {refused} refused"
    );
}

#[test]
fn an_object_with_errors_that_were_there_before_is_not_settled() {
    let schema = |rule: &str| {
        let mut item = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}});
        item["x-kubernetes-validations"] = json!([{"rule": rule}]);
        parsed(&object(json!({"one": item})))
    };
    let with = |n: i64| json!({"spec": {"one": {"n": n}}});
    assert!(schema("self.n < 8").is_settled(&with(7), &Changed::Whole));
    for (rule, n) in [("self.n < 8", 8), ("true", 10), ("self.n > oldSelf.n", 7)] {
        assert!(!schema(rule).is_settled(&with(n), &Changed::Whole), "{rule}");
    }
}
