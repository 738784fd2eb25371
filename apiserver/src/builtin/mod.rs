//! What the real server's OpenAPI says of the built-in kinds: list types, map keys, patch strategies, atomicity.

use serde_json::Value;

/// The type of `metadata` of every object.
pub const OBJECT_META: &str = "meta.v1.ObjectMeta";

/// The name of the built-in type of objects of this `apiVersion` and `kind`; `None` for kinds that are not built in.
pub fn type_of(_api_version: &str, _kind: &str) -> Option<&'static str> {
    None
}

/// Drops what the built-in type `ty` does not declare and returns the paths dropped (`spec.bogus`), sorted.
pub fn prune(_ty: &str, _object: &mut Value) -> Vec<String> {
    Vec::new()
}
