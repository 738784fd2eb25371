//! Converts schemas to the form that API servers accept: structural, without `null`, and with formats that Kubernetes
//! supports.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube::core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform, transform::Transform};
use serde_json::{Map, Value, json};

/// The schema of a root type.
pub(crate) fn schema<K: JsonSchema>() -> Option<JSONSchemaProps> {
    let generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(transform::AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(FieldDescriptions)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString)
        .with_transform(Plain)
        .into_generator();
    let mut schema = generator.into_root_schema_for::<K>().to_value();
    root_properties(&mut schema);
    // A schema that cannot be parsed would be missing in its committed file, and a test compares them.
    serde_json::from_value(schema).ok()
}

/// Adds the fields of every root object other than spec and status.
fn root_properties(schema: &mut Value) {
    let Some(root) = schema.as_object_mut() else {
        return;
    };
    root.remove("title");
    let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    properties
        .entry("metadata")
        .or_insert_with(|| json!({ "type": "object" }));
    properties.insert("apiVersion".to_owned(), json!({ "type": "string" }));
    properties.insert("kind".to_owned(), json!({ "type": "string" }));
}

/// Keeps a field's own description where its optional type has one too.
#[derive(Clone, Debug)]
struct FieldDescriptions;

impl Transform for FieldDescriptions {
    fn transform(&mut self, schema: &mut Schema) {
        transform::transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        if !object.contains_key("description") {
            return;
        }
        let alternatives = object
            .get_mut("anyOf")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for alternative in alternatives.filter_map(Value::as_object_mut) {
            alternative.remove("description");
        }
    }
}

/// Removes what Kubernetes does not support: `null` as an alternative to a value, and unsigned numbers.
#[derive(Clone, Debug)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform::transform_subschemas(self, schema);
        if let Some(object) = schema.as_object_mut() {
            without_null(object);
            without_unsigned(object);
        }
    }
}

fn without_null(schema: &mut Map<String, Value>) {
    schema.remove("nullable");
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
}

fn without_unsigned(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str);
    match format {
        Some("uint32" | "uint64") => {
            schema.insert("format".to_owned(), json!("int64"));
        }
        Some("uint8" | "uint16") => {
            schema.insert("format".to_owned(), json!("int32"));
        }
        _ => {}
    }
}
