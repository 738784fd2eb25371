//! Schemas of the built-in kinds, from the table of their types: names and types of fields, without descriptions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::builtin::{Scalar, Shape, shape_of};

/// The schema of a built-in type; the types that it refers to are added to `schemas`.
pub(super) fn schema(type_name: &'static str, schemas: &mut Map<String, Value>) -> Value {
    let mut wanted = BTreeSet::new();
    let root = shape_of(type_name).map_or_else(
        || json!({"type": "object"}),
        |shape| shape_schema(shape, &mut wanted),
    );
    // Each iteration handles a type without a schema, so the loop ends.
    while let Some(name) = wanted.pop_first() {
        if !schemas.contains_key(&public_name(name))
            && let Some(shape) = shape_of(name)
        {
            schemas.insert(public_name(name), shape_schema(shape, &mut wanted));
        }
    }
    root
}

/// The public name of a type.
pub(super) fn public_name(type_name: &str) -> String {
    match type_name.strip_prefix("meta.v1.") {
        Some(name) => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
        None => format!("io.k8s.api.{type_name}"),
    }
}

fn shape_schema(shape: &'static Shape, wanted: &mut BTreeSet<&'static str>) -> Value {
    match shape {
        Shape::Scalar(Scalar::Numeric) => json!({"type": "integer"}),
        Shape::Scalar(Scalar::Text) => json!({"type": "string"}),
        Shape::Scalar(Scalar::Boolean) => json!({"type": "boolean"}),
        Shape::Scalar(Scalar::Untyped) => json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        Shape::Any | Shape::Raw => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        Shape::Map { element, .. } => {
            json!({"type": "object", "additionalProperties": shape_schema(element, wanted)})
        }
        Shape::List(list) => {
            let mut schema = json!({"type": "array", "items": shape_schema(&list.item, wanted)});
            let kind = match (list.associative, list.keys.is_empty()) {
                (false, _) => "atomic",
                (true, true) => "set",
                (true, false) => "map",
            };
            schema["x-kubernetes-list-type"] = kind.into();
            if kind == "map" {
                schema["x-kubernetes-list-map-keys"] = json!(list.keys);
            }
            schema
        }
        Shape::Object { fields, .. } => {
            let properties: Map<String, Value> = fields
                .iter()
                .map(|(name, field)| ((*name).to_owned(), shape_schema(&field.shape, wanted)))
                .collect();
            let required: Vec<&str> = fields
                .iter()
                .filter(|(_, field)| field.required)
                .map(|(name, _)| *name)
                .collect();
            let mut schema = json!({"type": "object", "properties": properties});
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            schema
        }
        Shape::Named(name, _) => {
            wanted.insert(name);
            json!({"allOf": [{"$ref": format!("#/components/schemas/{}", public_name(name))}]})
        }
    }
}
