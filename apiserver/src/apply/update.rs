//! Effect of an apply or another write on the object and on the entries of all managers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ApplyError;
use super::element::printed_path;
use super::managers::{Manager, Managers, Owned};
use super::set::{self, FieldSet};
use super::types::Ty;
use super::walk::{compare, equal, merge_values, remove};
use crate::schema::{Cause, Changed, reason};

/// The object and managers after `manager` applied `config` onto `live`; the object is `None` if it does not change.
pub(super) fn apply_configuration(
    live: &Value,
    config: &Value,
    ty: Ty<'_>,
    managers: &Managers,
    manager: &Manager,
    request: &Request<'_>,
) -> Result<(Option<Value>, Managers), ApplyError> {
    let merged = merge_values(Some(live), Some(config), ty).unwrap_or(Value::Null);
    let mut managers = managers.clone();
    let last = managers.get(manager).cloned();
    let fields = set::of_value(config, ty).recursive_difference(request.ignored);
    let time = last.as_ref().and_then(|last| last.time.clone());
    let owned = Owned {
        fields,
        api_version: request.api_version.to_owned(),
        time,
    };
    managers.insert(manager.clone(), owned);
    let merged = match &last {
        Some(last) if !last.fields.is_empty() => prune(&merged, ty, &managers, &last.fields),
        _ => merged,
    };
    take_over(live, &merged, ty, &mut managers, Some(manager), request)?;
    let changed = !equal(live, &merged);
    Ok((changed.then_some(merged), managers))
}

/// The managers after `manager` wrote `new` over `old`, and whether any tracked field changed.
pub(super) fn update_managers(
    old: &Value,
    new: &Value,
    ty: Ty<'_>,
    managers: &Managers,
    manager: &Manager,
    request: &Request<'_>,
) -> (Managers, bool) {
    let mut managers = managers.clone();
    let forced = Request {
        force: true,
        ..*request
    };
    // Forced, so there is no conflict to report.
    let changes = take_over(old, new, ty, &mut managers, None, &forced).unwrap_or_default();
    let fields = changes
        .recursive_difference(request.ignored)
        .difference(&never_tracked());
    if fields.is_empty() {
        return (managers, false);
    }
    let owned = managers.entry(manager.clone()).or_insert_with(|| Owned {
        fields: FieldSet::default(),
        api_version: request.api_version.to_owned(),
        time: None,
    });
    owned.fields = owned.fields.union(&fields);
    request.api_version.clone_into(&mut owned.api_version);
    owned.time = Some(request.now.to_owned());
    (managers, true)
}

/// Options of the write.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub force: bool,
    pub api_version: &'a str,
    pub now: &'a str,
    /// Fields that the endpoint does not write: no manager gets ownership of them through it.
    pub ignored: &'a FieldSet,
    /// The parts of the object that may differ.
    pub changed: &'a Changed,
}

/// Paths that are never tracked.
pub(super) fn never_tracked() -> FieldSet {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
}

/// Removes the changed paths from all other managers, or returns the conflicts; otherwise returns the added and changed
/// paths.
fn take_over(
    old: &Value,
    new: &Value,
    ty: Ty<'_>,
    managers: &mut Managers,
    manager: Option<&Manager>,
    request: &Request<'_>,
) -> Result<FieldSet, ApplyError> {
    let changes = compare(Some(old), Some(new), ty, request.changed).without(request.ignored);
    let written = changes.modified.union(&changes.added);
    let mut conflicts: BTreeMap<&Manager, FieldSet> = BTreeMap::new();
    for (other, owned) in managers.iter().filter(|(other, _)| Some(*other) != manager) {
        let both = owned.fields.intersection(&written);
        if !both.is_empty() {
            conflicts.insert(other, both);
        }
    }
    if !request.force && !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    for (_, owned) in managers.iter_mut().filter(|(other, _)| Some(*other) != manager) {
        owned.fields = owned.fields.difference(&written).difference(&changes.removed);
    }
    managers.retain(|_, owned| !owned.fields.is_empty());
    Ok(written)
}

fn conflict(conflicts: &BTreeMap<&Manager, FieldSet>) -> ApplyError {
    let mut all: Vec<(String, String)> = Vec::new();
    for (manager, fields) in conflicts {
        all.extend(
            fields
                .paths()
                .iter()
                .map(|path| (manager.printed(), printed_path(path))),
        );
    }
    let causes = all.iter().map(|(manager, path)| {
        Cause::new(
            reason::MANAGER_CONFLICT,
            path.as_str(),
            format!("conflict with {manager}"),
        )
    });
    let causes = causes.collect();
    let message = match all.as_slice() {
        [(manager, path)] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
        all => {
            let mut lines: Vec<String> = Vec::new();
            for (index, (manager, path)) in all.iter().enumerate() {
                if index == 0 || all[index - 1].0 != *manager {
                    lines.push(format!("conflicts with {manager}:"));
                }
                lines.push(format!("- {path}"));
            }
            format!("Apply failed with {} conflicts: {}", all.len(), lines.join("\n"))
        }
    };
    ApplyError::Conflict { message, causes }
}

/// Removes from `merged` what the applier applied last time (`last`), does not apply now, and no other manager owns.
fn prune(merged: &Value, ty: Ty<'_>, managers: &Managers, last: &FieldSet) -> Value {
    let named = |set: &FieldSet| set.with_named_fields(Some(ty));
    let last = named(last);
    let without_last = remove(merged, &last, ty);
    let all = named(&set::of_value(merged, ty));
    let owned = managers
        .values()
        .fold(FieldSet::default(), |all, owned| all.union(&owned.fields));
    let kept = named(&set::of_value(&without_last, ty)).union(&named(&owned));
    let with_owned = remove(merged, &all.difference(&kept), ty);
    // A path that only disappeared along with a previously applied one, without being applied, is kept.
    let gone = all.difference(&named(&set::of_value(&with_owned, ty)));
    remove(merged, &gone.intersection(&last), ty)
}
