//! Pruning, defaulting and validation of an object.

use serde_json::Value;

use super::options::{Options, Tracking};
use super::query::FieldValidation;
use crate::apply::keep_times;
use crate::kinds::validate;
use crate::lifecycle::metadata;
use crate::meta;
use crate::resources::{Resource, Typing, types};
use crate::schema::{Cause, Changed};
use crate::status::{About, ApiError};

/// Drops unknown fields from the changed parts and applies defaults to them. Returns warnings, or an error (Strict).
pub(super) fn shape(
    resource: &Resource,
    options: &Options,
    object: &mut Value,
    changed: &Changed,
    duplicates: &[String],
    tracking: Tracking,
) -> Result<Vec<String>, ApiError> {
    let mut unknown = metadata::prune_metadata(object);
    match &resource.typing {
        Typing::Custom(custom) => {
            unknown.extend(custom.schema.prune(object, changed));
            match tracking {
                Tracking::Update | Tracking::Done => custom.schema.default(object, changed),
                Tracking::Applied => custom.schema.fill(object),
            }
        }
        Typing::Builtin(name) => {
            without_nulls(object);
            if let Some(name) = name {
                crate::builtin::drop_empty(name, object);
                if let Some(problem) = types::mismatch(name, object) {
                    return Err(ApiError::bad_request(&handled_as(resource, &problem)));
                }
                unknown.extend(crate::builtin::prune_builtin(name, object));
            }
        }
    }
    unknown.dedup();
    let repeated = duplicates
        .iter()
        .map(|path| format!("duplicate field \"{path}\""));
    let problems: Vec<String> = repeated
        .chain(unknown.iter().map(|path| format!("unknown field \"{path}\"")))
        .collect();
    match options.validation {
        FieldValidation::Strict if !problems.is_empty() => {
            let what = format!("strict decoding error: {}", problems.join(", "));
            let message = match resource.typing {
                Typing::Custom(_) => what,
                Typing::Builtin(_) => handled_as(resource, &what),
            };
            Err(ApiError::bad_request(&message))
        }
        FieldValidation::Warn => Ok(problems),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

fn handled_as(resource: &Resource, problem: &str) -> String {
    let (kind, version) = (&resource.kind, &resource.version);
    format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {problem}")
}

/// Removes null fields: for built-in kinds null is the same as absent.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, field| !field.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Normalizes the result of an apply once it is valid: leftover nulls are dropped, and times of managers are those of
/// `old` if nothing else changed.
pub(super) fn normalize_applied(resource: &Resource, old: Option<&Value>, new: &mut Value) {
    if let Typing::Custom(custom) = &resource.typing {
        custom.schema.default(new, &Changed::Whole);
    }
    if let Some(old) = old {
        keep_times(old, new);
    }
}

/// Validation errors of the changed parts of an object's content.
pub(super) fn problems(
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
    changed: &Changed,
    status: bool,
) -> Vec<Cause> {
    match &resource.typing {
        Typing::Custom(custom) if status => custom.schema.validate_status(new, old, changed),
        Typing::Custom(custom) => custom.schema.validate(new, old, changed),
        Typing::Builtin(_) => validate::check(resource, new, old),
    }
}

/// Returns an error if there are causes.
pub(super) fn refuse_invalid(resource: &Resource, object: &Value, causes: &[Cause]) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    let about = About {
        group: &resource.group,
        kind: &resource.kind,
        name: meta::name(object),
    };
    Err(ApiError::invalid(about, causes))
}

/// Rejects objects that could not be parsed again: the managers of deeply nested fields are nested even deeper.
pub(super) fn refuse_too_deep(object: &Value) -> Result<(), ApiError> {
    let depth = meta::depth(object);
    if depth > meta::MAX_DEPTH {
        return Err(ApiError::bad_request(&format!(
            "the object, with its managed fields, is nested {depth} levels deep: the maximum is {}",
            meta::MAX_DEPTH
        )));
    }
    Ok(())
}
