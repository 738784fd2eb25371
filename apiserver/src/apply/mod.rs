//! Server-side apply: typed merge, ownership of fields (`managedFields`), conflicts.

use serde_json::Value;

use crate::schema::{Cause, Schema};

/// How the fields of an object are known.
#[derive(Clone, Copy, Debug)]
pub enum TypeRef<'a> {
    /// A custom resource, by its schema.
    Custom(&'a Schema),
    /// A built-in type, by its name from [`crate::builtin::type_of`].
    Builtin(&'static str),
    /// Nothing is known: maps are granular, lists atomic.
    Untyped,
}

/// Who applies, and how.
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

/// Who creates, updates or patches (other than by apply).
#[derive(Clone, Copy, Debug)]
pub struct UpdateOptions<'a> {
    /// The field manager: `fieldManager=` or the first word of the user agent up to `/`.
    pub manager: &'a str,
    /// `Some("status")` for a write to that subresource.
    pub subresource: Option<&'a str>,
    /// Whether the kind has a status subresource: then a write to the main resource owns nothing below `status`.
    pub has_status: bool,
    /// The `apiVersion` of the request.
    pub api_version: &'a str,
    /// The instant of the request, RFC 3339 in seconds.
    pub now: &'a str,
}

/// Why an apply was refused.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields with other values: 409 Conflict with causes `FieldManagerConflict`.
    #[error("{message}")]
    Conflict {
        /// `Apply failed with 1 conflict: ...`.
        message: String,
        /// One per field.
        causes: Vec<Cause>,
    },
    /// The applied object is not of its type: 500 without a reason.
    #[error("{0}")]
    Typed(String),
    /// The request cannot be carried out as it stands: 400 BadRequest.
    #[error("{0}")]
    BadRequest(String),
}

/// The object that results from applying `applied` onto `live` (`None`: it does not exist), with its new
/// `metadata.managedFields`. If nothing changes the result equals `live`.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    _ty: TypeRef<'_>,
    _options: &ApplyOptions<'_>,
) -> Result<Value, ApplyError> {
    let mut merged = live.cloned().unwrap_or_else(|| applied.clone());
    json_patch::merge(&mut merged, applied);
    Ok(merged)
}

/// Sets `metadata.managedFields` of `new` after a create (`old` is `None`), update or patch by a manager. Call it
/// after pruning, defaulting and the reset of what the endpoint ignores. If nothing but managed fields changed,
/// `new` gets those of `old`.
pub fn track_update(old: Option<&Value>, new: &mut Value, _ty: TypeRef<'_>, _options: &UpdateOptions<'_>) {
    let kept = old.and_then(|old| old.pointer("/metadata/managedFields")).cloned();
    if let (Some(kept), Some(metadata)) = (kept, new.get_mut("metadata").and_then(Value::as_object_mut)) {
        metadata.insert("managedFields".to_owned(), kept);
    }
}
