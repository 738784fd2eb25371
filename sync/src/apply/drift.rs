//! Whether an object matches the result of a dry run. Pure.

use serde_json::{Map, Value};

use super::FIELD_MANAGER;

/// Metadata fields that the server changes on its own, or that a dry run cannot predict.
pub(super) const VOLATILE: [&str; 6] = [
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
    drifted_content(live, dry_run) || owned(live) != owned(dry_run)
}

/// Whether applying would change the content of the object, regardless of who owns its fields.
pub(super) fn drifted_content(live: &Value, dry_run: &Value) -> bool {
    let content = |field: &str, _: &Value| !matches!(field, "status" | "metadata");
    !(equal(live, dry_run, content) && equal(&live["metadata"], &dry_run["metadata"], is_content_of_metadata))
}

/// Whether a field of metadata was set by a user. An empty map counts as unset.
fn is_content_of_metadata(field: &str, value: &Value) -> bool {
    !VOLATILE.contains(&field) && !value.as_object().is_some_and(Map::is_empty)
}

/// Whether two objects are equal in the relevant fields.
fn equal(one: &Value, other: &Value, counts: impl Fn(&str, &Value) -> bool) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return one == other;
    };
    let within = |one: &Map<String, Value>, other: &Map<String, Value>| {
        one.iter()
            .filter(|(field, value)| counts(field, value))
            .all(|(field, value)| other.get(field) == Some(value))
    };
    within(one, other) && within(other, one)
}

/// The fields that our manager owns through apply, regardless of the timestamp.
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
