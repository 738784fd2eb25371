//! The rules of `metadata` that apply to every kind.

use serde_json::{Value, json};

use crate::meta;
use crate::resources::Resource;
use crate::schema::{Cause, Changed};
use crate::status::ApiError;

/// The fields of ObjectMeta.
const FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The longest part of `generateName` that is kept, so that name and suffix fit a label.
const GENERATED_BASE: usize = 58;

/// A name from `generateName`.
pub(crate) fn generated_name(base: &str, suffix: &str) -> String {
    let end = base
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|at| *at <= GENERATED_BASE)
        .last()
        .unwrap_or(0);
    let base = if base.len() > GENERATED_BASE {
        &base[..end]
    } else {
        base
    };
    format!("{base}{suffix}")
}

/// Normalizes metadata for storage: no nulls, no empty maps or lists. Rejects wrong types.
pub(crate) fn clean(object: &mut Value) -> Result<(), ApiError> {
    let metadata = &mut object["metadata"];
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Some(fields) = metadata.as_object_mut() else {
        return Err(wrong_type("metadata", "object"));
    };
    for (name, value) in fields.iter() {
        if !has_right_type(name, value) {
            return Err(wrong_type(&format!("metadata.{name}"), expected_type(name)));
        }
    }
    fields.retain(|_, value| !is_empty(value));
    Ok(())
}

fn wrong_type(field: &str, expected: &str) -> ApiError {
    ApiError::bad_request(&format!(
        "json: cannot unmarshal value into Go struct field {field} of type {expected}"
    ))
}

fn expected_type(name: &str) -> &'static str {
    match name {
        "labels" | "annotations" => "map[string]string",
        "finalizers" => "[]string",
        "ownerReferences" => "[]metav1.OwnerReference",
        "managedFields" => "[]metav1.ManagedFieldsEntry",
        "generation" | "deletionGracePeriodSeconds" => "int64",
        _ => "string",
    }
}

fn has_right_type(name: &str, value: &Value) -> bool {
    let all = |items: &Value, test: fn(&Value) -> bool| {
        items.as_array().is_some_and(|items| items.iter().all(test))
    };
    value.is_null()
        || match expected_type(name) {
            "map[string]string" => value
                .as_object()
                .is_some_and(|map| map.values().all(|v| v.is_string() || v.is_null())),
            "[]string" => all(value, Value::is_string),
            "int64" => value.is_i64() || value.is_u64(),
            "string" => value.is_string() || !FIELDS.contains(&name),
            _ => all(value, Value::is_object),
        }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Drops unknown fields of metadata, and returns their paths.
pub(crate) fn prune_metadata(object: &mut Value) -> Vec<String> {
    let is_known = |key: &String| FIELDS.contains(&key.as_str());
    meta::with_child(object, "metadata", |fields| {
        let unknown = fields
            .keys()
            .filter(|key| !is_known(key))
            .map(|key| format!("metadata.{key}"))
            .collect();
        fields.retain(|key, _| is_known(key));
        unknown
    })
}

/// Sets the fields of a new object that only the server sets.
pub(crate) fn set_initial_metadata(object: &mut Value, resource: &Resource, uid: String, now: &str) {
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
        "generation",
    ] {
        meta::set_metadata(object, field, Value::Null);
    }
    meta::set_metadata(object, "uid", uid.into());
    meta::set_metadata(object, "creationTimestamp", now.into());
    if resource.counts_generations() {
        meta::set_metadata(object, "generation", 1.into());
    }
}

/// Errors for forbidden changes of metadata.
pub(crate) fn changes_refused(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let uid = meta::uid(new);
    if !uid.is_empty() && uid != meta::uid(old) {
        let cause = Cause::invalid("metadata.uid", &uid.into(), "field is immutable");
        // Twice, as on the real server, which validates object metadata in two places.
        causes.extend([cause.clone(), cause]);
    }
    if meta::is_terminating(old) {
        let added: Vec<&str> = meta::finalizers(new)
            .filter(|f| !meta::has_finalizer(old, f))
            .collect();
        if !added.is_empty() {
            let shown = added
                .iter()
                .map(|f| format!("{f:?}"))
                .collect::<Vec<_>>()
                .join(", ");
            let text = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &text));
        }
    }
    causes
}

/// Copies the fields that identify the object to the new version.
pub(crate) fn keep(old: &Value, new: &mut Value) {
    for field in ["uid", "resourceVersion"] {
        meta::set_metadata(new, field, old["metadata"][field].clone());
    }
}

/// Whether the desired state of the two differs (which increases the generation), in one of the `changed` parts: for
/// custom resources everything but metadata and status, for built-in kinds the spec (for webhook configurations the
/// webhooks).
pub(crate) fn wants_changed(resource: &Resource, old: &Value, new: &Value, changed: &Changed) -> bool {
    if resource.custom().is_none() {
        return old["spec"] != new["spec"] || old["webhooks"] != new["webhooks"];
    }
    let is_wanted = |key: &str| {
        key != "metadata" && !(key == "status" && resource.status) && changed.member(key).is_some()
    };
    let (old, new) = (old.as_object(), new.as_object());
    let [old, new] = [old, new].map(|object| object.into_iter().flatten().filter(|(key, _)| is_wanted(key)));
    !old.eq(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_fit_a_label() {
        assert_eq!(generated_name("a-", "bcdfg"), "a-bcdfg");
        let long = "x".repeat(70);
        assert_eq!(generated_name(&long, "bcdfg").len(), 63);
    }

    #[test]
    fn metadata_is_stored_without_empty_parts() {
        let mut object =
            json!({"metadata": {"name": "a", "creationTimestamp": null, "labels": {}, "finalizers": []}});
        clean(&mut object).unwrap();
        assert_eq!(object, json!({"metadata": {"name": "a"}}));
    }

    #[test]
    fn metadata_of_a_wrong_type_is_refused() {
        for metadata in [
            json!({"labels": {"a": 1}}),
            json!({"name": 5}),
            json!([]),
            json!({"finalizers": "x"}),
        ] {
            let mut object = json!({"metadata": metadata});
            assert_eq!(clean(&mut object).unwrap_err().code, 400, "{object}");
        }
    }
}
