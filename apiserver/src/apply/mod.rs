//! Server-side apply: typed merge, ownership of fields (`managedFields`), conflicts.
//!
//! Follows structured-merge-diff: [`types`] gives one view of schemas, [`walk`] traverses values, [`set`] is the
//! algebra of paths, [`managers`] has the entries, [`update`] applies a write to all of them.

mod element;
mod managers;
mod set;
mod types;
mod update;
mod walk;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::schema::{Cause, Changed, Schema};

use managers::{Manager, Managers};
use set::FieldSet;
use types::Ty;

/// The source of an object's field types.
#[derive(Clone, Copy, Debug)]
pub enum TypeRef<'a> {
    /// A custom resource, by its schema.
    Custom(&'a Schema),
    /// A built-in type, by its name from [`crate::builtin::type_of`].
    Builtin(&'static str),
    /// No type is known: maps are granular, lists atomic.
    Untyped,
}

/// Options of an apply.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions<'a> {
    /// The field manager (`fieldManager=`).
    pub manager: &'a str,
    /// Take fields from other managers instead of a conflict.
    pub force: bool,
    /// `Some("status")` for a write to that subresource.
    pub subresource: Option<&'a str>,
    /// Whether the kind has a status subresource: then a write to the main resource owns nothing below `status`.
    pub has_status: bool,
    /// The `apiVersion` of the request.
    pub api_version: &'a str,
    /// The instant of the request, RFC 3339 in seconds.
    pub now: &'a str,
}

/// Options of a create, update or patch (other than apply).
#[derive(Clone, Copy, Debug)]
pub struct UpdateOptions<'a> {
    /// The field manager: `fieldManager=` or the user agent up to the first `/`.
    pub manager: &'a str,
    /// `Some("status")` for a write to that subresource.
    pub subresource: Option<&'a str>,
    /// Whether the kind has a status subresource: then a write to the main resource owns nothing below `status`.
    pub has_status: bool,
    /// The `apiVersion` of the request.
    pub api_version: &'a str,
    /// The instant of the request, RFC 3339 in seconds.
    pub now: &'a str,
    /// The parts of the object that may differ from its current version.
    pub changed: &'a Changed,
}

/// Why an apply was refused.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own some of the fields: 409 Conflict with causes `FieldManagerConflict`.
    #[error("{message}")]
    Conflict {
        /// `Apply failed with 1 conflict: ...`.
        message: String,
        /// One per field.
        causes: Vec<Cause>,
    },
    /// The applied object does not match its type: 500 without a reason.
    #[error("{0}")]
    Typed(String),
    /// The request is invalid: 400 BadRequest.
    #[error("{0}")]
    BadRequest(String),
}

/// Applies `applied` to `live` (`None`: it does not exist) and returns the object with its new
/// `metadata.managedFields`. If the object does not change, the result equals `live` except for the managers.
///
/// Call it before pruning and defaulting, and [`keep_times`] after them.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    ty: TypeRef<'_>,
    options: &ApplyOptions<'_>,
) -> Result<Value, ApplyError> {
    let given = applied
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if given != options.api_version {
        let text = "Incorrect version specified in apply patch. Specified patch version";
        return Err(ApplyError::BadRequest(format!(
            "{text}: {given}, expected: {}",
            options.api_version
        )));
    }
    if applied
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    let ty = Ty::of(ty);
    let typed = |object: &Value, what: &str, duplicates: bool| {
        walk::validate(object, ty, duplicates).map_err(|error| {
            ApplyError::Typed(format!(
                "failed to create typed {what} object ({}): {error}",
                name(object)
            ))
        })
    };
    typed(applied, "patch", false)?;
    let before = without_entries(live.cloned().unwrap_or_else(|| empty(applied)));
    typed(&before, "live", true)?;
    let ignored = ignored(options.subresource, options.has_status);
    let request = update::Request {
        force: options.force,
        api_version: options.api_version,
        now: options.now,
        ignored: &ignored,
        changed: &Changed::Whole,
    };
    // Unreadable entries own nothing.
    let mut entries = live
        .and_then(|live| managers::read(live).ok())
        .unwrap_or_default();
    if let (true, Some(_)) = (entries.is_empty(), live) {
        let first = Manager::updater("before-first-apply", options.api_version, options.subresource);
        entries = update::update_managers(&empty(applied), &before, ty, &entries, &first, &request).0;
    }
    let manager = Manager::applier(options.manager, options.subresource);
    let (changed, mut entries) =
        update::apply_configuration(&before, applied, ty, &entries, &manager, &request)?;
    strip(&mut entries, &manager);
    if let (true, Some(owned)) = (changed.is_some(), entries.get_mut(&manager)) {
        owned.time = Some(options.now.to_owned());
    }
    let mut object = changed.unwrap_or(before);
    managers::write(&mut object, &entries);
    Ok(object)
}

/// Sets `metadata.managedFields` of `new` after a create (`old` is `None`), update or patch by a manager. Call it after
/// pruning, defaulting and resetting the fields that the endpoint ignores. If only times of managed fields changed,
/// `new` gets those of `old`.
///
/// `new` may have entries (a PUT of an object read before); an empty list in them resets all ownership.
pub fn track_update(old: Option<&Value>, new: &mut Value, ty: TypeRef<'_>, options: &UpdateOptions<'_>) {
    let given = new.pointer("/metadata/managedFields").cloned();
    let reset = given.as_ref().and_then(Value::as_array).is_some_and(|entries| {
        entries.is_empty() || matches!(entries.as_slice(), [Value::Object(entry)] if entry.is_empty())
    });
    let live = || old.and_then(|old| managers::read(old).ok()).unwrap_or_default();
    let entries = match (options.subresource, reset) {
        (None, true) => Managers::new(),
        (None, false) => managers::read(new)
            .ok()
            .filter(|entries| !entries.is_empty())
            .unwrap_or_else(live),
        (Some(_), _) => live(),
    };
    let nothing = empty(new);
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    if entries.is_empty() && old.is_some() {
        // Ownership was reset or never tracked: it begins with the first apply.
        return;
    }
    let ty = Ty::of(ty);
    // The existing fields, if any, are owned by no manager.
    let before = old.unwrap_or(&nothing);
    let ignored = ignored(options.subresource, options.has_status);
    let request = update::Request {
        force: true,
        api_version: options.api_version,
        now: options.now,
        ignored: &ignored,
        changed: options.changed,
    };
    let manager = Manager::updater(options.manager, options.api_version, options.subresource);
    let (entries, is_changed) = update::update_managers(before, new, ty, &entries, &manager, &request);
    managers::write(new, &entries);
    if let (false, Some(old)) = (is_changed, old) {
        keep_times(old, new);
    }
}

/// If `new` differs from `old` only in times of managed fields, copies those of `old`, so that both are equal. Call it
/// before raising the resource version or generation.
pub fn keep_times(old: &Value, new: &mut Value) {
    let timeless = |object: &Value| -> Vec<Value> {
        let entries = object
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array)
            .cloned();
        let mut entries = entries.unwrap_or_default();
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        entries.sort_by_key(Value::to_string);
        entries
    };
    let same = equal_but_entries(old, new) && timeless(old) == timeless(new);
    if let (true, Some(entries)) = (same, old.pointer("/metadata/managedFields"))
        && let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("managedFields".to_owned(), entries.clone());
    }
}

/// Fields that the endpoint does not write.
fn ignored(subresource: Option<&str>, has_status: bool) -> FieldSet {
    match subresource {
        Some("status") => FieldSet::of_fields(&[&["metadata"], &["spec"]]),
        None if has_status => FieldSet::of_fields(&[&["status"]]),
        _ => FieldSet::default(),
    }
}

fn strip(entries: &mut Managers, manager: &Manager) {
    if let Some(owned) = entries.get_mut(manager) {
        owned.fields = owned.fields.difference(&update::never_tracked());
    }
    entries.retain(|_, owned| !owned.fields.is_empty());
}

fn empty(object: &Value) -> Value {
    let mut empty = Map::new();
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.get(key) {
            empty.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(empty)
}

/// Whether two objects are equal except for the entries of managers.
fn equal_but_entries(one: &Value, other: &Value) -> bool {
    let (Some(ones), Some(others)) = (one.as_object(), other.as_object()) else {
        return walk::equal(one, other);
    };
    let metadata = |object: &Value| without_entries(json!({"metadata": object.get("metadata")}));
    let fields = || ones.iter().filter(|(name, _)| *name != "metadata");
    ones.len() == others.len()
        && fields().all(|(name, one)| others.get(name).is_some_and(|other| walk::equal(one, other)))
        && walk::equal(&metadata(one), &metadata(other))
}

fn without_entries(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// `NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`, as the real server names objects in errors.
fn name(object: &Value) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let api_version = text("/apiVersion");
    // The core group has an empty name.
    let group_version = if api_version.contains('/') {
        api_version
    } else {
        format!("/{api_version}")
    };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!("{namespace}/{name}; {group_version}, Kind={}", text("/kind"))
}
