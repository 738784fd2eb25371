//! Takes over fields that `kubectl` owns, so that what was added by hand and is not declared in git is removed. Pure.
//!
//! `kubectl apply` and `kubectl edit` leave their own entries in `managedFields`; a field that such an entry owns stays
//! when we apply without it. As in Flux, these fields are first moved into our entry: then server-side apply removes
//! what the manifest does not have. Entries of controllers (an autoscaler's `replicas`) have other manager names and
//! are kept.
//!
//! This happens before the dry run, because such a field may conflict with the manifest. A port with another number but
//! the same name, a volume of another type, or a `value` next to a `valueFrom` is refused while both are set.
//!
//! The same applies to defaults that the server filled in and no manager owns: `rollingUpdate` is refused next to
//! `type: Recreate`. Client-side `kubectl apply` also sends `rollingUpdate: null`; server-side apply removes a field
//! only if its manager owned it, so we take ownership of such a default first, too.

use serde_json::{Map, Value, json};

use super::{
    FIELD_MANAGER,
    managed::{self, LAST_APPLIED, union},
    prepare::text_at,
};
use crate::inventory::ObjectId;

/// Where an entry of `managedFields` shows that its manager wrote [`LAST_APPLIED`].
const WROTE_LAST_APPLIED: &str =
    "/fieldsV1/f:metadata/f:annotations/f:kubectl.kubernetes.io~1last-applied-configuration";

/// Prefixes of manager names whose fields are taken over: kubectl's (`kubectl-edit`, `kubectl-client-side-apply`, …),
/// and the name that the API server gives to fields that were set before the first apply. The list is Flux's.
const PEOPLE: [&str; 2] = [muster_api::labels::manager::KUBECTL_PREFIX, "before-first-apply"];

/// Strategy fields in the spec of `apps` kinds that must not have a `rollingUpdate` if their type is not
/// `RollingUpdate`. A DaemonSet may.
const STRATEGIES: [(&str, &str); 2] = [("Deployment", "strategy"), ("StatefulSet", "updateStrategy")];

/// The JSON patch that makes us own the fields of `live` that were set with kubectl (unless the object `merges`) or
/// conflict with `body`; `None` if there are none.
pub(super) fn takeover_patch(live: &Value, body: &Value, merges: bool) -> Option<Value> {
    let annotation = live
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(LAST_APPLIED))
        .filter(|_| !merges)
        .map(|_| {
            let path = format!("/metadata/annotations/{}", LAST_APPLIED.replace('/', "~1"));
            json!({"op": "remove", "path": path})
        });
    let entries = managed::entries(live);
    let taken = managed::merged(entries, |entry| !merges && is_peoples(entry), FIELD_MANAGER);
    let unowned = ruled_out(live, body);
    let taken = if unowned.is_empty() {
        taken
    } else {
        let entries = taken.unwrap_or_else(|| entries.to_vec());
        Some(managed::extended(
            entries,
            FIELD_MANAGER,
            &live["apiVersion"],
            &unowned,
        ))
    };
    if annotation.is_none() && taken.is_none() {
        return None;
    }
    let operations = annotation
        .into_iter()
        .chain(taken.map(|entries| managed::replaced(&entries)))
        .chain([managed::on_version(live)]);
    Some(operations.collect())
}

/// A strategy of a live object that has a `rollingUpdate`, while the manifest sets a type that does not allow one.
struct Strategy {
    /// Name of the strategy field in the spec.
    field: &'static str,
    /// The type in the manifest.
    wanted: String,
    /// The managers that own fields of the `rollingUpdate`.
    owners: Vec<String>,
}

fn strategy(live: &Value, body: &Value) -> Option<Strategy> {
    if !text_at(live, "/apiVersion").starts_with("apps/") {
        return None;
    }
    let (_, field) = STRATEGIES.into_iter().find(|(kind, _)| live["kind"] == *kind)?;
    let (ours, theirs) = (&body["spec"][field], &live["spec"][field]);
    let wanted = ours["type"].as_str()?;
    if wanted == "RollingUpdate" || !ours["rollingUpdate"].is_null() || theirs["rollingUpdate"].is_null() {
        return None;
    }
    let owned = format!("/fieldsV1/f:spec/f:{field}/f:rollingUpdate");
    let owners = managed::entries(live)
        .iter()
        .filter(|entry| entry.pointer(&owned).is_some());
    Some(Strategy {
        field,
        wanted: wanted.to_owned(),
        owners: owners
            .map(|entry| text_at(entry, "/manager").to_owned())
            .collect(),
    })
}

/// The defaults of `live`, as a `fieldsV1`, that conflict with `body` and that no manager owns.
pub(super) fn ruled_out(live: &Value, body: &Value) -> Map<String, Value> {
    let unowned = strategy(live, body).filter(|strategy| strategy.owners.is_empty());
    let fields = unowned.map(|strategy| {
        let field = format!("f:{}", strategy.field);
        json!({"f:spec": {field: {"f:rollingUpdate": {}}}})
    });
    match fields {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Advice if `body` is refused because of a field of `live` that other managers own.
pub(super) fn advice(id: &ObjectId, live: &Value, body: &Value) -> Option<String> {
    let Strategy {
        field,
        wanted,
        owners,
    } = strategy(live, body).filter(|strategy| !strategy.owners.is_empty())?;
    let patch = json!([{"op": "replace", "path": format!("/spec/{field}"), "value": {"type": wanted}}]);
    Some(format!(
        "spec.{field}.rollingUpdate belongs to {}: remove it there, or once by kubectl patch {} {} -n {} --type=json -p '{patch}'",
        owners.join(" and "),
        id.kind.to_lowercase(),
        id.name,
        id.namespace,
    ))
}

/// `body` as a strategic merge patch of `live`, for the case that the server refuses the dry run of the apply until the
/// fields of the entries that match `theirs` are ours: it removes explicitly what the apply would remove. Items of sets
/// of scalars are not removed.
pub(super) fn merge_patch(live: &Value, body: &Value, theirs: impl Fn(&Value) -> bool) -> Value {
    let ours = |entry: &Value| theirs(entry) || managed::is_applied_by(entry, FIELD_MANAGER);
    let gone = union(fields_of(live, ours), &ruled_out(live, body));
    let kept = fields_of(live, |entry: &Value| !ours(entry));
    let mut patch = body.clone();
    with_removals(&mut patch, &gone, &kept);
    patch
}

/// Adds to a strategic merge patch the removal of the fields in `gone` that the patch does not set and that are not in
/// `kept`.
fn with_removals(patch: &mut Value, gone: &Map<String, Value>, kept: &Map<String, Value>) {
    let none = Map::new();
    for (step, below) in gone {
        let below = below.as_object().unwrap_or(&none);
        let keeps = kept.get(step).map(|kept| kept.as_object().unwrap_or(&none));
        match (step.split_once(':'), &mut *patch) {
            (Some(("f", name)), Value::Object(fields)) => match fields.get_mut(name) {
                Some(Value::Object(atomic)) if below.is_empty() => {
                    atomic.insert("$patch".to_owned(), "replace".into());
                }
                Some(child) if !child.is_null() => with_removals(child, below, keeps.unwrap_or(&none)),
                Some(_) | None if keeps.is_none() => {
                    fields.insert(name.to_owned(), Value::Null);
                }
                Some(_) | None => {}
            },
            (Some(("k", keys)), Value::Array(items)) => {
                let Ok(Value::Object(keys)) = serde_json::from_str(keys) else {
                    continue;
                };
                let same = |item: &&mut Value| {
                    // Keys that the manifest omits have a default, such as the protocol of a port.
                    keys.iter()
                        .all(|(key, value)| item.get(key).is_none_or(|found| found == value))
                };
                if let Some(item) = items.iter_mut().find(same) {
                    with_removals(item, below, keeps.unwrap_or(&none));
                } else if keeps.is_none() {
                    let mut removal = keys;
                    removal.insert("$patch".to_owned(), "delete".into());
                    items.push(Value::Object(removal));
                }
            }
            _ => {}
        }
    }
}

/// The fields of all entries that match `chosen`.
fn fields_of(object: &Value, chosen: impl Fn(&Value) -> bool) -> Map<String, Value> {
    let entries = managed::entries(object).iter().filter(|entry| chosen(entry));
    entries
        .filter_map(|entry| entry["fieldsV1"].as_object())
        .fold(Map::new(), union)
}

/// The expected result of the apply once we own the fields of the entries that match `theirs`: `dry_run` without the
/// fields that no other manager owns. Defaults that the server sets for removed fields are missing.
pub(super) fn predicted(live: &Value, dry_run: &Value, theirs: impl Fn(&Value) -> bool) -> Value {
    let (gone, kept) = (
        fields_of(live, &theirs),
        fields_of(dry_run, |entry| !theirs(entry)),
    );
    let mut object = dry_run.clone();
    remove(&mut object, &gone, &kept);
    object
}

/// Removes the fields that are in `fields` and not in `kept` from an object, and parents that become empty.
fn remove(object: &mut Value, fields: &Map<String, Value>, kept: &Map<String, Value>) {
    let none = Map::new();
    for (step, below) in fields {
        let Some(place) = child_key(object, step) else {
            continue;
        };
        let below = below.as_object().unwrap_or(&none);
        let keeps = kept.get(step).map(|kept| kept.as_object().unwrap_or(&none));
        let child = match &place {
            ChildKey::Field(name) => object.get_mut(name),
            ChildKey::Item(index) => object.get_mut(index),
        };
        let Some(child) = child else { continue };
        remove(child, below, keeps.unwrap_or(&none));
        let goes = below.is_empty() || is_empty(child);
        if !goes || keeps.is_some() {
            continue;
        }
        if let (ChildKey::Field(name), Some(fields)) = (&place, object.as_object_mut()) {
            fields.remove(name);
        } else if let (ChildKey::Item(index), Some(items)) = (&place, object.as_array_mut()) {
            items.remove(*index);
        }
    }
}

/// The child that a step of a `fieldsV1` path selects.
enum ChildKey {
    Field(String),
    Item(usize),
}

/// `f:NAME` is a field, `k:{…}` the list item with these keys, `v:VALUE` the list item with that value.
fn child_key(object: &Value, step: &str) -> Option<ChildKey> {
    let (kind, rest) = step.split_once(':')?;
    if kind == "f" {
        return Some(ChildKey::Field(rest.to_owned()));
    }
    let wanted: Value = serde_json::from_str(rest).ok()?; // another kind of step
    let found = object.as_array()?.iter().position(|item| match (kind, &wanted) {
        ("k", Value::Object(keys)) => keys.iter().all(|(key, value)| item.get(key) == Some(value)),
        ("v", value) => item == value,
        _ => false,
    });
    found.map(ChildKey::Item)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether an entry is kubectl's or another manual client's, or was left by one of our own updates (not an apply).
/// `kubectl apply` with another `--field-manager` is recognized by its annotation.
pub(super) fn is_peoples(entry: &Value) -> bool {
    let manager = entry["manager"].as_str().unwrap_or_default();
    let updates = entry["operation"] == "Update";
    let left_by_us = manager == FIELD_MANAGER && updates;
    let client_side = updates && entry.pointer(WROTE_LAST_APPLIED).is_some();
    managed::is_main(entry)
        && (left_by_us || client_side || PEOPLE.iter().any(|prefix| manager.starts_with(prefix)))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(entries: Value, expect: Value) {
        let live = json!({"metadata": {"resourceVersion": "7", "managedFields": entries}});
        let taken = takeover_patch(&live, &json!({}), false).map(|patch| patch[0]["value"].clone());
        assert_eq!(taken.unwrap_or_default(), expect);
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    /// The cases of Flux's own test table.
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
            // Renamed if we have no entry yet, merged otherwise.
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

    #[test]
    fn the_annotation_tells_a_client_side_apply_of_another_name() {
        let wrote = json!({"f:metadata": {"f:annotations": {".": {}, format!("f:{LAST_APPLIED}"): {}}}});
        check(
            json!([entry("ci", "Update", wrote.clone())]),
            json!([entry("muster-sync", "Apply", wrote.clone())]),
        );
        check(json!([entry("ci", "Apply", wrote)]), Value::Null);
    }

    fn rolling(owners: Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"resourceVersion": "7", "managedFields": owners},
            "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}},
        })
    }

    /// A conflicting default becomes ours, so that applying removes it; a field that a manager owns stays with that
    /// manager.
    #[test]
    fn a_default_that_is_ruled_out_becomes_ours() {
        let strategy = |below: Value| json!({"f:spec": {"f:strategy": below}});
        let body = |kind: &str| json!({"spec": {"strategy": {"type": kind}}});
        let entries = |live: &Value, body: &Value, merges: bool| {
            takeover_patch(live, body, merges).map(|patch| patch[0]["value"].clone())
        };
        let ours = entry("muster-sync", "Apply", strategy(json!({"f:type": {}})));
        let claimed = strategy(json!({"f:type": {}, "f:rollingUpdate": {}}));
        for merges in [false, true] {
            assert_eq!(
                entries(&rolling(json!([ours])), &body("Recreate"), merges),
                Some(json!([entry("muster-sync", "Apply", claimed.clone())]))
            );
        }
        assert_eq!(
            entries(&rolling(json!([ours])), &body("RollingUpdate"), false),
            None
        );
        // Nothing has been applied yet.
        let claimed = json!({"manager": "muster-sync", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": strategy(json!({"f:rollingUpdate": {}}))});
        assert_eq!(
            entries(&rolling(json!([])), &body("Recreate"), false),
            Some(json!([claimed]))
        );
        let theirs = entry(
            "operator",
            "Update",
            strategy(json!({"f:rollingUpdate": {"f:maxSurge": {}}})),
        );
        assert_eq!(entries(&rolling(json!([theirs])), &body("Recreate"), false), None);
    }
}
