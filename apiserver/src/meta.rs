//! Reading and changing `metadata` of an object that is a JSON value.

use serde_json::{Map, Value};

/// A text field of `metadata`, empty if absent.
pub(crate) fn metadata_text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    metadata_text(object, "name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub(crate) fn namespace(object: &Value) -> &str {
    metadata_text(object, "namespace")
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    metadata_text(object, "uid")
}

/// `metadata.resourceVersion`.
pub(crate) fn resource_version(object: &Value) -> &str {
    metadata_text(object, "resourceVersion")
}

/// `metadata.generation`, 0 if absent.
pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Whether the object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Whether `finalizer` is on the object.
pub(crate) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|f| f == finalizer)
}

/// `metadata.ownerReferences`.
pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

/// Maximum nesting depth of a stored object: what serde_json parses, here and in clients.
pub(crate) const MAX_DEPTH: usize = 127;

/// Nesting depth of a value: 0 for a number, 1 for an empty list.
pub(crate) fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or_default() // empty
}

/// Changes the object at `field`, which is created if absent.
pub(crate) fn with_child<T>(
    parent: &mut Value,
    field: &str,
    change: impl FnOnce(&mut Map<String, Value>) -> T,
) -> T {
    let taken = parent.get_mut(field).map(Value::take);
    let mut map = match taken {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let answer = change(&mut map);
    match parent {
        Value::Object(parent) => {
            parent.insert(field.to_owned(), Value::Object(map));
        }
        other => *other = Value::Object(Map::from_iter([(field.to_owned(), Value::Object(map))])),
    }
    answer
}

/// Sets or (with a null) removes one field of `metadata`.
pub(crate) fn set_metadata(object: &mut Value, field: &str, value: Value) {
    with_child(object, "metadata", |metadata| {
        if value.is_null() {
            metadata.remove(field);
        } else {
            metadata.insert(field.to_owned(), value);
        }
    });
}

/// Adds a finalizer if absent; returns whether it was added.
pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if has_finalizer(object, finalizer) {
        return false;
    }
    let mut all: Vec<Value> = finalizers(object).map(Value::from).collect();
    all.push(finalizer.into());
    set_metadata(object, "finalizers", all.into());
    true
}

/// Removes a finalizer; returns whether it was present.
pub(crate) fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if !has_finalizer(object, finalizer) {
        return false;
    }
    let rest: Vec<Value> = finalizers(object)
        .filter(|f| *f != finalizer)
        .map(Value::from)
        .collect();
    set_metadata(
        object,
        "finalizers",
        if rest.is_empty() { Value::Null } else { rest.into() },
    );
    true
}
