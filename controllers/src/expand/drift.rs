//! A live object that differs from the derived one: who owns it, who manages its fields, and what would correct it.
//!
//! Pure, on full objects with their `managedFields`, which are read only if there is a difference.
//!
//! Invariant: muster owns an object by its owner reference, or by having written it; a name or labels alone prove
//! nothing. Invariant: a CRD default that no manager set is not drift: otherwise a newer Flux would cause endless
//! writes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use muster_api::{
    assemblage::{SyncRow, SyncState},
    flux::Kustomization,
    kind::GROUP,
    reasons::Reason,
    sync::{PACKAGE_FIELDS, SOURCE_FIELDS},
};
use serde_json::{Value, json};

use super::{
    flux_object::{FluxObject, SourceKind},
    observed::Owner,
    print::{ANNOTATIONS, kustomization_print, source_print},
    row_state,
    view::Scope,
};

/// Who owns an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This assemblage.
    Ours,
    /// Another owner, as text.
    Foreign(String),
}

/// Whether a Kustomization belongs to `assemblage` of this kind.
pub fn claim(live: &Kustomization, kind: &str, assemblage: &str, manager: &str) -> Claim {
    match live.owner_references().iter().find_map(Owner::of) {
        Some(owner) if owner.kind == kind && owner.name == assemblage => Claim::Ours,
        Some(owner) => Claim::Foreign(format!("it belongs to {} {}", owner.kind, owner.name)),
        // Deleting an assemblage with `--cascade=orphan` removes the owner reference; that muster wrote the object
        // stays in managedFields.
        None if wrote(live.managed_fields(), manager, &["spec"]) => Claim::Ours,
        None => Claim::Foreign(made_by(live.managed_fields())),
    }
}

/// Whether muster created a source.
pub fn claim_source(live: &FluxObject, manager: &str) -> Claim {
    let fields = live.metadata().managed_fields.as_deref().unwrap_or_default();
    if wrote(fields, manager, &["spec"]) {
        Claim::Ours
    } else {
        Claim::Foreign(made_by(fields))
    }
}

/// The manager that suspended a Kustomization; `None` if it is not suspended, or muster suspended it.
pub fn held_by(live: &Kustomization, manager: &str) -> Option<String> {
    if live.spec.suspend != Some(true) || wrote(live.managed_fields(), manager, &["spec", "suspend"]) {
        return None;
    }
    let by = live
        .managed_fields()
        .iter()
        .find(|entry| has(entry, &["spec", "suspend"]))
        .and_then(|entry| entry.manager.clone());
    Some(by.unwrap_or_else(|| "an unknown manager".to_owned()))
}

/// The object that corrects `live` to match `derived`, with the resourceVersion of `live`; `None` if it matches
/// already.
pub fn repaired(live: &Kustomization, derived: &Kustomization, manager: &str) -> Option<Kustomization> {
    let mut next = live.clone();
    next.status = None;
    next.spec = derived.spec.clone();
    next.spec.other = kept(
        (live.managed_fields(), manager),
        &live.spec.other,
        &derived.spec.other,
        PACKAGE_FIELDS,
    );
    next.labels_mut().extend(derived.labels().clone());
    next.annotations_mut()
        .retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    next.annotations_mut().extend(derived.annotations().clone());
    let owners = next.owner_references_mut();
    owners.retain(|owner| owner.api_version.split('/').next() != Some(GROUP));
    owners.extend(derived.owner_references().iter().cloned());
    let same = kustomization_print(&next) == kustomization_print(live) && live.spec.suspend != Some(true);
    (!same).then_some(next)
}

/// The source that corrects `live` to match `derived`, with the resourceVersion of `live`; `None` if it matches
/// already.
pub fn repaired_source(live: &FluxObject, derived: &FluxObject, manager: &str) -> Option<FluxObject> {
    match (live, derived) {
        (FluxObject::Git(live), FluxObject::Git(derived)) => {
            repaired_of(&**live, &**derived, manager).map(FluxObject::from)
        }
        (FluxObject::Oci(live), FluxObject::Oci(derived)) => {
            repaired_of(&**live, &**derived, manager).map(FluxObject::from)
        }
        // Both are read as the kind that is derived.
        (FluxObject::Git(_) | FluxObject::Oci(_), _) => None,
    }
}

/// The same, for one kind.
pub fn repaired_of<K: SourceKind>(live: &K, derived: &K, manager: &str) -> Option<K> {
    let other = kept(
        (live.managed_fields(), manager),
        live.other(),
        derived.other(),
        SOURCE_FIELDS,
    );
    let mut next = live.with_spec(derived, live.suspend(), other);
    next.labels_mut().extend(derived.labels().clone());
    (source_print(&next) != source_print(live)).then_some(next)
}

/// The fields that are not modeled: those that muster derives, and defaults of the kind, which no other manager set.
/// The API server records a default as set by the manager of the write; only for fields that muster passes through is
/// more known.
fn kept(
    (entries, manager): (&[ManagedFieldsEntry], &str),
    live: &BTreeMap<String, Value>,
    derived: &BTreeMap<String, Value>,
    handed_through: &[&str],
) -> BTreeMap<String, Value> {
    let is_set = |field: &str, by_us: bool| {
        let mut of = entries
            .iter()
            .filter(|entry| (entry.manager.as_deref() == Some(manager)) == by_us);
        of.any(|entry| has(entry, &["spec", field]))
    };
    let is_ours = |field: &str| handed_through.contains(&field) && is_set(field, true);
    let defaults = live
        .iter()
        .filter(|(field, _)| !is_set(field, false) && !is_ours(field));
    defaults
        .chain(derived)
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect()
}

fn wrote(entries: &[ManagedFieldsEntry], manager: &str, path: &[&str]) -> bool {
    entries
        .iter()
        .any(|entry| entry.manager.as_deref() == Some(manager) && has(entry, path))
}

/// Whether a managedFields entry owns a field, or a field below it. Writes of status do not count.
fn has(entry: &ManagedFieldsEntry, path: &[&str]) -> bool {
    let pointer: String = path.iter().flat_map(|field| ["/f:", field]).collect();
    let fields = entry
        .fields_v1
        .as_ref()
        .map_or_else(|| json!(null), |fields| fields.0.clone());
    entry.subresource.as_deref().unwrap_or_default().is_empty()
        && fields
            .pointer(&pointer)
            .is_some_and(|owned: &Value| !owned.is_null())
}

fn made_by(entries: &[ManagedFieldsEntry]) -> String {
    match entries
        .iter()
        .find(|entry| has(entry, &["spec"]))
        .and_then(|entry| entry.manager.as_deref())
    {
        Some(manager) => format!("{manager} created it"),
        None => "another manager created it".to_owned(),
    }
}

/// The state of a row whose Kustomization must not be written: another owner has it, or another manager suspended it.
pub fn untouchable(scope: &Scope, row: &SyncRow, live: &Kustomization) -> Option<SyncState> {
    let name = live.metadata.name.as_deref().unwrap_or_default();
    if let Claim::Foreign(why) = claim(live, &scope.kind, &scope.assemblage, &scope.manager) {
        let message = format!(
            "Kustomization {name} exists and does not belong to this assemblage: {why}; rename or delete it"
        );
        return Some(row_state::blocked(row, Reason::NameConflict, &message));
    }
    held_by(live, &scope.manager).map(|manager| {
        let message = format!("Kustomization {name} was suspended by {manager}; nothing is changed until spec.suspend is removed");
        row_state::blocked(row, Reason::Held, &message)
    })
}
