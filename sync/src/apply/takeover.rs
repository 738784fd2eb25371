//! Taking over what `kubectl` owns, so that what people added by hand and git does not declare goes away. Pure.
//!
//! `kubectl apply` and `kubectl edit` leave entries of their own in `managedFields`; a field that such an entry owns stays
//! when we apply without it. As Flux does, their fields are moved into our entry first: then server-side apply removes what
//! the manifest does not have. Entries of controllers (an autoscaler's `replicas`) are of other names and stay theirs.

use serde_json::{Map, Value, json};

use super::FIELD_MANAGER;

/// What client-side `kubectl apply` compares with the next time: kept, it would bring back what git has dropped. It quotes
/// the whole object, of a Secret too.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// By which prefixes people's managers are known: kubectl's own (`kubectl-edit`, `kubectl-client-side-apply`, …), and what
/// the API server calls fields that were there before anybody applied. The list is Flux's.
const PEOPLE: [&str; 2] = [muster_api::labels::manager::KUBECTL_PREFIX, "before-first-apply"];

/// In `fieldsV1`: the field itself, beside the fields in it.
const ITSELF: &str = ".";

/// The JSON patch after which `live` is ours, as far as it was people's; `None` if nothing of it is.
pub(super) fn patch(live: &Value) -> Option<Value> {
    let annotation = live
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(LAST_APPLIED))
        .map(|_| {
            let path = format!("/metadata/annotations/{}", LAST_APPLIED.replace('/', "~1"));
            json!({"op": "remove", "path": path})
        });
    let entries = live
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .and_then(|entries| taken(entries))
        .map(|entries| json!({"op": "replace", "path": "/metadata/managedFields", "value": entries}));
    if annotation.is_none() && entries.is_none() {
        return None;
    }
    // A resource version makes the server refuse the patch if somebody has written since.
    let version = json!({"op": "replace", "path": "/metadata/resourceVersion",
        "value": live.pointer("/metadata/resourceVersion")});
    let operations = annotation.into_iter().chain(entries).chain([version]);
    Some(operations.collect())
}

/// The entries with all that is people's in ours; `None` if nothing is.
fn taken(entries: &[Value]) -> Option<Vec<Value>> {
    let (theirs, mut rest): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(|entry| is_peoples(entry));
    let first = *theirs.first()?;
    let ours = rest.iter().position(|entry| is_ours(entry));
    let mut taken = match ours {
        Some(place) => rest.remove(place).clone(),
        None => first.clone(),
    };
    taken["manager"] = json!(FIELD_MANAGER);
    taken["operation"] = json!("Apply");
    let none = Map::new();
    let fields = |entry: &Value| entry["fieldsV1"].as_object().unwrap_or(&none).clone();
    let all = theirs
        .iter()
        .fold(fields(&taken), |all, entry| union(all, &fields(entry)));
    taken["fieldsV1"] = Value::Object(all);
    Some(rest.into_iter().cloned().chain([taken]).collect())
}

/// What `dry_run`, the server's answer to applying onto `live`, comes to after a takeover: without the fields that nobody
/// but people owned. What the server makes of their absence is not in it.
pub(super) fn foretold(live: &Value, dry_run: &Value) -> Value {
    let none = Vec::new();
    let entries = |object: &Value| {
        let entries = object
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array);
        entries.unwrap_or(&none).clone()
    };
    let all = |entries: Vec<Value>, peoples: bool| {
        let chosen = entries.iter().filter(|entry| is_peoples(entry) == peoples);
        chosen
            .filter_map(|entry| entry["fieldsV1"].as_object())
            .fold(Map::new(), union)
    };
    let mut object = dry_run.clone();
    remove(
        &mut object,
        &all(entries(live), true),
        &all(entries(dry_run), false),
    );
    object
}

/// Removes the fields of one set that are not of another one from an object, and what is empty thereby.
fn remove(object: &mut Value, fields: &Map<String, Value>, kept: &Map<String, Value>) {
    let none = Map::new();
    for (step, below) in fields {
        let Some(place) = place(object, step) else {
            continue;
        };
        let below = below.as_object().unwrap_or(&none);
        let keeps = kept.get(step).map(|kept| kept.as_object().unwrap_or(&none));
        let child = match &place {
            Place::Field(name) => object.get_mut(name),
            Place::Item(index) => object.get_mut(index),
        };
        let Some(child) = child else { continue };
        remove(child, below, keeps.unwrap_or(&none));
        let goes = below.is_empty() || is_empty(child);
        if !goes || keeps.is_some() {
            continue;
        }
        if let (Place::Field(name), Some(fields)) = (&place, object.as_object_mut()) {
            fields.remove(name);
        } else if let (Place::Item(index), Some(items)) = (&place, object.as_array_mut()) {
            items.remove(*index);
        }
    }
}

/// Where a step of a `fieldsV1` leads.
enum Place {
    Field(String),
    Item(usize),
}

/// `f:NAME` is a field, `k:{…}` the item of a list that has these keys, `v:VALUE` the item of that value.
fn place(object: &Value, step: &str) -> Option<Place> {
    let (kind, rest) = step.split_once(':')?;
    if kind == "f" {
        return Some(Place::Field(rest.to_owned()));
    }
    let wanted: Value = serde_json::from_str(rest).ok()?; // another kind of step
    let found = object.as_array()?.iter().position(|item| match (kind, &wanted) {
        ("k", Value::Object(keys)) => keys.iter().all(|(key, value)| item.get(key) == Some(value)),
        ("v", value) => item == value,
        _ => false,
    });
    found.map(Place::Item)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether an entry is of a person's tool, or left by us from something else than applying.
fn is_peoples(entry: &Value) -> bool {
    let manager = entry["manager"].as_str().unwrap_or_default();
    let main = entry
        .get("subresource")
        .is_none_or(|subresource| subresource == "");
    let left_by_us = manager == FIELD_MANAGER && entry["operation"] == "Update";
    main && (left_by_us || PEOPLE.iter().any(|prefix| manager.starts_with(prefix)))
}

fn is_ours(entry: &Value) -> bool {
    entry["manager"] == FIELD_MANAGER
        && entry["operation"] == "Apply"
        && entry
            .get("subresource")
            .is_none_or(|subresource| subresource == "")
}

/// All paths of two sets of fields, each a `fieldsV1`: a tree in which a leaf is a path, and so is what holds `.`.
fn union(mut one: Map<String, Value>, other: &Map<String, Value>) -> Map<String, Value> {
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
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
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

    #[track_caller]
    fn check(entries: Value, expect: Value) {
        let live = json!({"metadata": {"resourceVersion": "7", "managedFields": entries}});
        let taken = patch(&live).map(|patch| patch[0]["value"].clone());
        assert_eq!(taken.unwrap_or_default(), expect);
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    /// The cases of Flux's own table of this.
    #[test]
    fn entries_of_people_become_ours() {
        let a = json!({"f:data": {"f:a": {}}});
        let b = json!({"f:data": {"f:b": {}}});
        let both = json!({"f:data": {"f:a": {}, "f:b": {}}});
        check(json!([]), Value::Null);
        check(json!([entry("muster-sync", "Apply", a.clone())]), Value::Null);
        check(
            json!([entry("kube-controller-manager", "Update", a.clone())]),
            Value::Null,
        );
        for (manager, operation) in [
            ("kubectl", "Apply"),
            ("kubectl-edit", "Update"),
            ("kubectl-client-side-apply", "Update"),
            ("before-first-apply", "Update"),
            ("muster-sync", "Update"),
        ] {
            // Renamed where we have none yet, merged where we have.
            check(
                json!([entry(manager, operation, a.clone())]),
                json!([entry("muster-sync", "Apply", a.clone())]),
            );
            check(
                json!([
                    entry(manager, operation, a.clone()),
                    entry("muster-sync", "Apply", b.clone())
                ]),
                json!([entry("muster-sync", "Apply", both.clone())]),
            );
        }
        let other = entry("vpa", "Update", json!({"f:spec": {}}));
        check(
            json!([
                entry("kubectl-edit", "Update", a),
                other,
                entry("kubectl", "Apply", b)
            ]),
            json!([other, entry("muster-sync", "Apply", both)]),
        );
    }

    #[test]
    fn a_status_that_was_written_by_hand_stays_theirs() {
        let mut status = entry("kubectl-edit", "Update", json!({"f:status": {}}));
        status["subresource"] = json!("status");
        check(json!([status]), Value::Null);
    }
}
