//! Whether an object is as a dry run says that it would be. Pure.

use serde_json::Value;

use super::FIELD_MANAGER;

/// Fields of metadata that a server moves by itself, or that a dry run cannot foretell.
const VOLATILE: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "uid",
    "selfLink",
];

/// Whether applying would change the object: its content, or which fields we own.
///
/// Ownership counts, because a field that we do not own would stay when it leaves the manifest.
pub fn drifted(live: &Value, dry_run: &Value) -> bool {
    content(live) != content(dry_run) || owned(live) != owned(dry_run)
}

/// Everything but status and what the server moves by itself. An empty map in metadata is as good as none.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, value| {
            !VOLATILE.contains(&field.as_str()) && !value.as_object().is_some_and(serde_json::Map::is_empty)
        });
    }
    content
}

/// The fields that our manager owns by applying, whatever the time of it.
fn owned(object: &Value) -> Option<&Value> {
    let managers = object.pointer("/metadata/managedFields")?.as_array()?;
    managers
        .iter()
        .find(|entry| {
            entry["manager"] == FIELD_MANAGER
                && entry["operation"] == "Apply"
                && entry.get("subresource").is_none()
        })?
        .get("fieldsV1")
}
