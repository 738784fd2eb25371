//! Validation of a CRD's schema: the real server's rules for structural schemas and for the list, map and default
//! extensions, with its messages. [`super::rules`] validates the expressions of rules.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::cause::Cause;
use super::changed::Changed;
use super::node::Node;
use super::types::Type;
use super::value;

type Schema = Map<String, Value>;

/// Location of a node: the root, an item of a list, a member of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeLevel {
    Root,
    Item,
    Field,
}

/// All validation errors of `schema`, sorted; fields start with `path`.
pub(super) fn check(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Value::Object(root) = schema {
        node(root, NodeLevel::Root, path, &mut causes);
        super::rules::check(root, path, &mut causes);
    } else {
        causes.push(Cause::required(path, "must be specified"));
    }
    causes.sort();
    causes.dedup();
    causes
}

fn node(schema: &Schema, level: NodeLevel, path: &str, causes: &mut Vec<Cause>) {
    unsupported(schema, path, causes);
    types(schema, level, path, causes);
    extensions(schema, path, causes);
    list_type(schema, path, causes);
    default(schema, level, path, causes);
    value_checks(schema, int_or_string(schema), level, path, causes);
    if level == NodeLevel::Root || flag(schema, "x-kubernetes-embedded-resource") {
        type_and_metadata(schema, level, path, causes);
    }
    children(schema, level, path, causes);
}

fn children(schema: &Schema, level: NodeLevel, path: &str, causes: &mut Vec<Cause>) {
    match schema.get("items") {
        Some(Value::Object(items)) => node(items, NodeLevel::Item, &format!("{path}.items"), causes),
        Some(Value::Array(_)) => {
            let detail = "items must be a schema object and not an array";
            causes.push(Cause::forbidden(format!("{path}.items"), detail));
        }
        _ if text(schema, "type") == "array" => {
            causes.push(Cause::required(format!("{path}.items"), "must be specified"));
        }
        _ => {}
    }
    for (name, property) in object(schema, "properties").into_iter().flatten() {
        // `type_and_metadata` checks the schema of metadata.
        if let (Value::Object(property), false) = (property, level == NodeLevel::Root && name == "metadata") {
            node(
                property,
                NodeLevel::Field,
                &format!("{path}.properties[{name}]"),
                causes,
            );
        }
    }
    let additional = format!("{path}.additionalProperties");
    match schema.get("additionalProperties") {
        None => {}
        Some(given) => {
            if level == NodeLevel::Root {
                causes.push(Cause::forbidden(&additional, "must not be used at the root"));
            }
            if object(schema, "properties").is_some_and(|map| !map.is_empty()) && *given != json!(true) {
                let detail = "additionalProperties and properties are mutual exclusive";
                causes.push(Cause::forbidden(&additional, detail));
            }
            if let Value::Object(given) = given {
                node(given, NodeLevel::Field, &additional, causes);
            }
        }
    }
}

fn unsupported(schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    for word in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if schema.contains_key(word) {
            causes.push(Cause::forbidden(
                format!("{path}.{word}"),
                &format!("{word} is not supported"),
            ));
        }
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(format!("{path}.uniqueItems"), detail));
    }
}

fn types(schema: &Schema, level: NodeLevel, path: &str, causes: &mut Vec<Cause>) {
    let ty = text(schema, "type");
    let field = format!("{path}.type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    if ty == "null" {
        causes.push(Cause::forbidden(
            &field,
            "type cannot be set to null, use nullable as an alternative",
        ));
    }
    if !ty.is_empty() && ty != "null" && !Type::ALL.iter().any(|known| known.name() == ty) {
        let mut known: Vec<String> = Type::ALL.iter().map(|ty| ty.name().to_owned()).collect();
        known.sort();
        causes.push(Cause::not_supported(&field, &json!(ty), &known));
    }
    if embedded && ty != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(required_or_invalid(&field, ty, detail));
    } else if ty.is_empty()
        && !flag(schema, "x-kubernetes-int-or-string")
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
    {
        let detail = match level {
            NodeLevel::Root => "must not be empty at the root",
            NodeLevel::Item => "must not be empty for specified array items",
            NodeLevel::Field => "must not be empty for specified object fields",
        };
        causes.push(Cause::required(&field, detail));
    }
    if level == NodeLevel::Root && !ty.is_empty() && ty != "object" {
        causes.push(Cause::invalid(&field, &json!(ty), "must be object at the root"));
    }
}

fn extensions(schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    let embedded = "x-kubernetes-embedded-resource";
    if schema.get(preserve) == Some(&json!(false)) {
        causes.push(Cause::invalid(
            format!("{path}.{preserve}"),
            &json!(false),
            "must be true or undefined",
        ));
    }
    if flag(schema, "x-kubernetes-int-or-string") {
        for word in [preserve, embedded].into_iter().filter(|word| flag(schema, word)) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            causes.push(Cause::invalid(format!("{path}.{word}"), &json!(true), detail));
        }
    }
    let no_properties = object(schema, "properties").is_none_or(Map::is_empty);
    if flag(schema, embedded) && !flag(schema, preserve) && no_properties {
        let detail = concat!(
            "must not be empty if x-kubernetes-embedded-resource is true without ",
            "x-kubernetes-preserve-unknown-fields"
        );
        causes.push(Cause::required(format!("{path}.properties"), detail));
    }
    if flag(schema, embedded) && schema.contains_key("additionalProperties") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(Cause::forbidden(format!("{path}.additionalProperties"), detail));
    }
    if let Some(Value::String(map_type)) = schema.get("x-kubernetes-map-type") {
        if text(schema, "type") != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            causes.push(required_or_invalid(
                &format!("{path}.type"),
                text(schema, "type"),
                detail,
            ));
        }
        let known = ["atomic".to_owned(), "granular".to_owned()];
        if !known.contains(map_type) {
            causes.push(Cause::not_supported(
                format!("{path}.x-kubernetes-map-type"),
                &json!(map_type),
                &known,
            ));
        }
    }
}

fn list_type(schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    let field = format!("{path}.x-kubernetes-list-type");
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .filter(|keys| !keys.is_empty());
    let Some(Value::String(list_type)) = schema.get("x-kubernetes-list-type") else {
        if keys.is_some() {
            causes.push(Cause::required(
                field,
                "must be map if x-kubernetes-list-map-keys is non-empty",
            ));
        }
        return;
    };
    if text(schema, "type") != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        causes.push(required_or_invalid(
            &format!("{path}.type"),
            text(schema, "type"),
            detail,
        ));
    }
    let items = object(schema, "items");
    match (list_type.as_str(), keys) {
        ("atomic", None) => {}
        ("set", None) => set_items(items, path, causes),
        ("map", Some(keys)) => map_items(items, keys, path, causes),
        ("map", None) => {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            causes.push(Cause::required(
                format!("{path}.x-kubernetes-list-map-keys"),
                detail,
            ));
        }
        ("atomic" | "set", Some(_)) => {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            causes.push(Cause::invalid(field, &json!(list_type), detail));
        }
        _ => {
            let known = ["atomic", "set", "map"].map(str::to_owned);
            causes.push(Cause::not_supported(field, &json!(list_type), &known));
        }
    }
}

fn set_items(items: Option<&Schema>, path: &str, causes: &mut Vec<Cause>) {
    let Some(items) = items else { return };
    let word = match text(items, "type") {
        "array" if !matches!(text(items, "x-kubernetes-list-type"), "" | "atomic") => {
            "x-kubernetes-list-type"
        }
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => "x-kubernetes-map-type",
        _ => return,
    };
    let value = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    causes.push(Cause::invalid(format!("{path}.items.{word}"), &value, detail));
}

fn map_items(items: Option<&Schema>, keys: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let keys_field = format!("{path}.x-kubernetes-list-map-keys");
    let Some(items) = items else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        causes.push(Cause::required(format!("{path}.items"), detail));
        return;
    };
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(
            format!("{path}.items.type"),
            &json!(text(items, "type")),
            detail,
        ));
        return;
    }
    let required = items
        .get("required")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].contains(key) {
            causes.push(Cause::invalid(
                &keys_field,
                &json!(keys),
                "must not contain duplicate entries",
            ));
        }
        let name = key.as_str().unwrap_or_default();
        let property = object(items, "properties").and_then(|properties| properties.get(name));
        let Some(Value::Object(property)) = property else {
            causes.push(Cause::invalid(
                &keys_field,
                &json!(keys),
                "entries must all be names of item properties",
            ));
            continue;
        };
        let at = format!("{path}.items.properties[{name}]");
        if matches!(text(property, "type"), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            causes.push(Cause::invalid(format!("{at}.type"), &json!("object"), detail));
        }
        if !property.contains_key("default") && !required.contains(key) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(format!("{at}.default"), detail));
        }
    }
}

/// A default must be valid for its own schema.
fn default(schema: &Schema, level: NodeLevel, path: &str, causes: &mut Vec<Cause>) {
    let Some(value) = schema.get("default") else {
        return;
    };
    let field = format!("{path}.default");
    if level == NodeLevel::Root {
        causes.push(Cause::forbidden(field, "must not be set"));
        return;
    }
    let read = Node::read(&Value::Object(schema.clone()));
    let mut pruned = value.clone();
    let unknown = super::prune::below(&mut pruned, &read);
    if unknown.is_empty() {
        causes.extend(value::check(value, None, &read, &field, &Changed::Whole));
    } else {
        causes.push(Cause::invalid(field, value, "must not have unknown fields"));
    }
}

fn type_and_metadata(schema: &Schema, level: NodeLevel, path: &str, causes: &mut Vec<Cause>) {
    let Some(properties) = object(schema, "properties") else {
        return;
    };
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let Some(Value::Object(property)) = properties.get(name) else {
            continue;
        };
        if text(property, "type") != wanted {
            let field = format!("{path}.properties[{name}].type");
            causes.push(Cause::invalid(
                field,
                &json!(text(property, "type")),
                &format!("must be {wanted}"),
            ));
        }
    }
    let Some(Value::Object(metadata)) = properties.get("metadata").filter(|_| level == NodeLevel::Root)
    else {
        return;
    };
    let plain = metadata.iter().all(|(word, value)| match word.as_str() {
        "type" | "description" => true,
        "properties" => value
            .as_object()
            .is_some_and(|names| names.keys().all(|name| name == "name" || name == "generateName")),
        _ => false,
    });
    if !plain {
        let detail = concat!(
            "must not specify anything other than name and generateName, ",
            "but metadata is implicitly specified"
        );
        causes.push(Cause::forbidden(format!("{path}.properties[metadata]"), detail));
    }
}

/// The two forms of `anyOf: [integer, string]` that are allowed for int-or-string.
fn int_or_string(schema: &Schema) -> bool {
    flag(schema, "x-kubernetes-int-or-string")
}

fn is_int_or_string_pair(any_of: Option<&Value>) -> bool {
    any_of == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

/// `allOf`, `anyOf`, `oneOf`, `not` and `pattern` of a node.
fn value_checks(schema: &Schema, pair_allowed: bool, level: NodeLevel, path: &str, causes: &mut Vec<Cause>) {
    if let Some(Value::String(pattern)) = schema.get("pattern")
        && let Err(error) = Regex::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        causes.push(Cause::invalid(
            format!("{path}.pattern"),
            &json!(pattern),
            &detail,
        ));
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        let pair = pair_allowed && word == "anyOf" && is_int_or_string_pair(schema.get(word));
        if pair {
            continue;
        }
        let branches = schema.get(word).and_then(Value::as_array).into_iter().flatten();
        for (index, branch) in branches.enumerate() {
            let pair = pair_allowed && word == "allOf" && index == 0;
            if let Value::Object(branch) = branch {
                nested(branch, pair, level, &format!("{path}.{word}[{index}]"), causes);
            }
        }
    }
    if let Some(Value::Object(not)) = schema.get("not") {
        nested(not, false, level, &format!("{path}.not"), causes);
    }
}

/// Below a logical junctor only value validation is allowed.
fn nested(schema: &Schema, pair_allowed: bool, level: NodeLevel, path: &str, causes: &mut Vec<Cause>) {
    const FORBIDDEN: [(&str, &str); 12] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
    ];
    for (word, detail) in FORBIDDEN {
        if schema.get(word).is_some_and(|value| *value != json!(false)) {
            causes.push(Cause::forbidden(format!("{path}.{word}"), detail));
        }
    }
    if schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
        .is_some_and(|rules| !rules.is_empty())
    {
        let detail = "must be empty to be structural";
        causes.push(Cause::forbidden(
            format!("{path}.x-kubernetes-validations"),
            detail,
        ));
    }
    value_checks(schema, pair_allowed, level, path, causes);
    if let Some(Value::Object(items)) = schema.get("items") {
        nested(items, false, level, &format!("{path}.items"), causes);
    }
    for (name, property) in object(schema, "properties").into_iter().flatten() {
        let path = format!("{path}.properties[{name}]");
        if name == "metadata" {
            causes.push(Cause::forbidden(
                &path,
                "must not be specified in a nested context",
            ));
        }
        if let Value::Object(property) = property {
            nested(property, false, NodeLevel::Field, &path, causes);
        }
    }
}

fn required_or_invalid(field: &str, ty: &str, detail: &str) -> Cause {
    if ty.is_empty() {
        Cause::required(field, detail)
    } else {
        Cause::invalid(field, &json!(ty), detail)
    }
}

fn flag(schema: &Schema, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'a>(schema: &'a Schema, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn object<'a>(schema: &'a Schema, key: &str) -> Option<&'a Schema> {
    schema.get(key).and_then(Value::as_object)
}
