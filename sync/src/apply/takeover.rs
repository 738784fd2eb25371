//! Taking over what `kubectl` owns, so that what people added by hand and git does not declare goes away. Pure.
//!
//! `kubectl apply` and `kubectl edit` leave entries of their own in `managedFields`; a field that such an entry owns stays
//! when we apply without it. As Flux does, their fields are moved into our entry first: then server-side apply removes what
//! the manifest does not have. Entries of controllers (an autoscaler's `replicas`) are of other names and stay theirs.

use serde_json::{Map, Value, json};

use super::{
    FIELD_MANAGER,
    managed::{self, union},
};

/// What client-side `kubectl apply` compares with the next time: kept, it would bring back what git has dropped. It quotes
/// the whole object, of a Secret too.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// By which prefixes people's managers are known: kubectl's own (`kubectl-edit`, `kubectl-client-side-apply`, …), and what
/// the API server calls fields that were there before anybody applied. The list is Flux's.
const PEOPLE: [&str; 2] = [muster_api::labels::manager::KUBECTL_PREFIX, "before-first-apply"];

/// The JSON patch after which `live` is ours, as far as it was people's; `None` if nothing of it is.
pub(super) fn patch(live: &Value) -> Option<Value> {
    let annotation = live
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(LAST_APPLIED))
        .map(|_| {
            let path = format!("/metadata/annotations/{}", LAST_APPLIED.replace('/', "~1"));
            json!({"op": "remove", "path": path})
        });
    let entries = managed::merged(managed::entries(live), is_peoples, FIELD_MANAGER);
    let entries = entries.map(|entries| managed::replaced(&entries));
    if annotation.is_none() && entries.is_none() {
        return None;
    }
    let operations = annotation
        .into_iter()
        .chain(entries)
        .chain([managed::on_version(live)]);
    Some(operations.collect())
}

/// What `dry_run`, the server's answer to applying onto `live`, comes to once we have what `theirs` are the entries of: without
/// the fields that nobody else owned. What the server makes of their absence is not in it.
pub(super) fn foretold(live: &Value, dry_run: &Value, theirs: impl Fn(&Value) -> bool) -> Value {
    let all = |object: &Value, wanted: bool| {
        let chosen = managed::entries(object)
            .iter()
            .filter(|entry| theirs(entry) == wanted);
        chosen
            .filter_map(|entry| entry["fieldsV1"].as_object())
            .fold(Map::new(), union)
    };
    let mut object = dry_run.clone();
    remove(&mut object, &all(live, true), &all(dry_run, false));
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
pub(super) fn is_peoples(entry: &Value) -> bool {
    let manager = entry["manager"].as_str().unwrap_or_default();
    let left_by_us = manager == FIELD_MANAGER && entry["operation"] == "Update";
    managed::is_main(entry) && (left_by_us || PEOPLE.iter().any(|prefix| manager.starts_with(prefix)))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use super::*;

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
