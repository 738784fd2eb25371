//! `metadata.managedFields`: whose a field is, and how it becomes another manager's. Pure.
//!
//! Invariant: entries of managers that are not named go on as they are, byte for byte.

use serde_json::{Map, Value, json};

/// What client-side `kubectl apply` compares with the next time: kept, it would bring back what git has dropped. It quotes
/// the whole object, of a Secret too.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// In `fieldsV1`: the field itself, beside the fields in it.
const ITSELF: &str = ".";

/// The entries of an object.
pub(super) fn entries(object: &Value) -> &[Value] {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    entries.map(Vec::as_slice).unwrap_or_default()
}

/// Whether an entry is about the object itself, and not about its status or another subresource.
pub(super) fn is_main(entry: &Value) -> bool {
    entry
        .get("subresource")
        .is_none_or(|subresource| subresource == "")
}

/// Whether an entry holds what `manager` applied. There is at most one: the API server tells appliers apart by nothing but name.
pub(super) fn is_applied_by(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply" && is_main(entry)
}

/// The entries with all that is `theirs` in the one that `heir` applied; `None` if nothing is theirs. Where the heir has none yet, the
/// first of theirs is renamed. Of two versions of an API the one of the heir's entry counts for both.
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

/// The entries with these fields in the one that `heir` applied, which is made if there is none.
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

/// The operation of a JSON patch that puts these entries in the place of all, if there are any.
pub(super) fn replaced(entries: &[Value]) -> Value {
    json!({"op": "add", "path": "/metadata/managedFields", "value": entries})
}

/// The operation that makes the server refuse a JSON patch with a conflict if somebody has written since `live` was read.
pub(super) fn on_version(live: &Value) -> Value {
    let version = live.pointer("/metadata/resourceVersion");
    json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version})
}

/// All paths of two sets of fields, each a `fieldsV1`: a tree in which a leaf is a path, and so is what holds `.`.
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

    /// The paths of a set.
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
