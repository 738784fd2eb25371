//! Reading and changing `metadata` of an object that is a JSON value.

use serde_json::{Map, Value};

/// A text field of `metadata`, empty if absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`.
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// `metadata.generation`, 0 if absent.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Whether the object is being deleted.
pub fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether `finalizer` is on the object.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|f| f == finalizer)
}

/// `metadata.ownerReferences`.
pub fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// The map of `metadata`, created if it is not an object.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    child_mut(object, "metadata")
}

/// The object at `field`, created if it is not an object.
pub fn child_mut<'a>(parent: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !parent.is_object() {
        *parent = Value::Object(Map::new());
    }
    let slot = &mut parent[field];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object just above"),
    }
}

/// Sets or (with a null) removes one field of `metadata`.
pub fn set(object: &mut Value, field: &str, value: Value) {
    let metadata = metadata_mut(object);
    if value.is_null() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Adds a finalizer if it is not there; says whether it was added.
pub fn add_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if has_finalizer(object, finalizer) {
        return false;
    }
    let mut all: Vec<Value> = finalizers(object).map(Value::from).collect();
    all.push(finalizer.into());
    set(object, "finalizers", all.into());
    true
}

/// Removes a finalizer; says whether it was there.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if !has_finalizer(object, finalizer) {
        return false;
    }
    let rest: Vec<Value> = finalizers(object).filter(|f| *f != finalizer).map(Value::from).collect();
    set(object, "finalizers", if rest.is_empty() { Value::Null } else { rest.into() });
    true
}
