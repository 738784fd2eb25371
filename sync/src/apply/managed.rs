//! `metadata.managedFields`: which manager owns a field, and how the field moves to another manager. Pure.
//!
//! Invariant: entries of managers that are not named are kept byte for byte.

use serde_json::{Map, Value, json};

/// What client-side `kubectl apply` compares with next time: if kept, it would bring back what was removed from git. It
/// contains the whole object, including the values of a Secret.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// In `fieldsV1`: the field itself, next to the fields in it.
const ITSELF: &str = ".";

/// The `managedFields` entries of an object.
pub(super) fn entries(object: &Value) -> &[Value] {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    entries.map(Vec::as_slice).unwrap_or_default()
}

/// Whether an entry is about the object itself and not about a subresource such as status.
pub(super) fn is_main(entry: &Value) -> bool {
    entry
        .get("subresource")
        .is_none_or(|subresource| subresource == "")
}

/// Whether an entry holds what `manager` applied. There is at most one: the API server distinguishes appliers only by
/// name.
pub(super) fn is_applied_by(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply" && is_main(entry)
}

/// The entries with everything that is `theirs` moved to the applied entry of `heir`; `None` if nothing is theirs. If
/// the heir has no entry yet, the first of theirs is renamed. If the API versions differ, the heir's is used for both.
pub(super) fn merged(entries: &[Value], theirs: impl Fn(&Value) -> bool, heir: &str) -> Option<Vec<Value>> {
    let (theirs, mut rest): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(|entry| theirs(entry));
    let first = *theirs.first()?;
    let place = rest.iter().position(|entry| is_applied_by(entry, heir));
    let mut merged = match place {
        Some(place) => rest.remove(place).clone(),
        None => first.clone(),
    };
    merged["manager"] = json!(heir);
    merged["operation"] = json!("Apply");
    let none = Map::new();
    let fields = |entry: &Value| entry["fieldsV1"].as_object().unwrap_or(&none).clone();
    let all = theirs
        .iter()
        .fold(fields(&merged), |all, entry| union(all, &fields(entry)));
    merged["fieldsV1"] = Value::Object(all);
    Some(rest.into_iter().cloned().chain([merged]).collect())
}

/// The entries with these fields added to the applied entry of `heir`, which is created if there is none.
pub(super) fn extended(
    mut entries: Vec<Value>,
    heir: &str,
    api_version: &Value,
    fields: &Map<String, Value>,
) -> Vec<Value> {
    let known = entries.iter().position(|entry| is_applied_by(entry, heir));
    let mut entry = match known {
        Some(index) => entries.remove(index),
        None => {
            json!({"manager": heir, "operation": "Apply", "apiVersion": api_version, "fieldsType": "FieldsV1"})
        }
    };
    let owned = entry["fieldsV1"].as_object().cloned().unwrap_or_default(); // nothing yet
    entry["fieldsV1"] = Value::Object(union(owned, fields));
    entries.push(entry);
    entries
}

/// The JSON patch operation that replaces all entries with these.
pub(super) fn replaced(entries: &[Value]) -> Value {
    json!({"op": "add", "path": "/metadata/managedFields", "value": entries})
}

/// The JSON patch operation that makes the server refuse the patch with a conflict if the object has changed since
/// `live` was read.
pub(super) fn on_version(live: &Value) -> Value {
    let version = live.pointer("/metadata/resourceVersion");
    json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version})
}

/// The union of two field sets, each a `fieldsV1`: a tree in which every leaf is a path, and so is every node that
/// contains `.`.
pub(super) fn union(mut one: Map<String, Value>, other: &Map<String, Value>) -> Map<String, Value> {
    for (step, below) in other {
        let both = match (one.remove(step), below) {
            (Some(Value::Object(known)), Value::Object(below)) if step != ITSELF => {
                let is_path = is_path(&known) || is_path(below);
                let mut both = union(known, below);
                if is_path && !both.is_empty() {
                    both.insert(ITSELF.to_owned(), Value::Object(Map::new()));
                }
                Value::Object(both)
            }
            _ => below.clone(),
        };
        one.insert(step.clone(), both);
    }
    one
}

fn is_path(below: &Map<String, Value>) -> bool {
    below.is_empty() || below.contains_key(ITSELF)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The paths of a field set.
    fn paths(fields: &Map<String, Value>, prefix: &str, all: &mut BTreeSet<String>) {
        for (step, below) in fields.iter().filter(|(step, _)| *step != ITSELF) {
            let path = format!("{prefix}/{step}");
            let below = below.as_object().unwrap();
            if is_path(below) {
                all.insert(path.clone());
            }
            paths(below, &path, all);
        }
    }

    fn paths_of(fields: &Map<String, Value>) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        paths(fields, "", &mut all);
        all
    }

    fn any_fields() -> impl Strategy<Value = Map<String, Value>> {
        let leaf = Just(Map::new()).prop_map(Value::Object);
        let tree = leaf.prop_recursive(4, 24, 3, |below| {
            (prop::collection::btree_map("f:[abc]", below, 1..4), any::<bool>()).prop_map(
                |(below, itself)| {
                    let mut below: Map<String, Value> = below.into_iter().collect();
                    if itself {
                        below.insert(ITSELF.to_owned(), json!({}));
                    }
                    Value::Object(below)
                },
            )
        });
        prop::collection::btree_map("f:[abc]", tree, 0..4).prop_map(|fields| fields.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_union_has_the_paths_of_both_and_no_others(one in any_fields(), other in any_fields()) {
            let both = union(one.clone(), &other);
            let expected: BTreeSet<String> = paths_of(&one).union(&paths_of(&other)).cloned().collect();
            prop_assert_eq!(paths_of(&both), expected);
            prop_assert_eq!(union(other, &one), both);
        }
    }
}
