//! The three patch types other than server-side apply: JSON patch, merge patch, strategic merge patch.

mod strategic;

#[cfg(test)]
mod tests;

use json_patch::PatchOperation;
use serde_json::Value;

use crate::meta::depth;
use crate::schema::Changed;

/// Maximum number of operations of one JSON patch, as on the real server.
const MAX_OPERATIONS: usize = 10_000;

/// Maximum number of bytes that the `copy` operations of one JSON patch may add, as on the real server: a few of them
/// double a value each.
const MAX_COPIED: usize = 3 << 20;

/// Maximum nesting depth of the result of a JSON patch: the same as for a request body. Each `copy` of a value into
/// itself nests it deeper, and traversing the result would overflow the stack.
const MAX_NESTING: usize = 128;

/// Why a patch could not be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is malformed: 400 BadRequest.
    #[error("{0}")]
    Malformed(String),
    /// The patch cannot be applied to the object, e.g. a JSON patch whose `test` fails: 422 Invalid without causes.
    #[error("the server rejected our request due to an error in our request")]
    Rejected,
    /// The patch has too many operations: 413 RequestEntityTooLarge.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooMany(usize),
}

fn operations(patch: &Value) -> Result<json_patch::Patch, PatchError> {
    serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("error decoding patch: {error}")))
}

/// The parts of an object that a JSON patch may change.
pub fn changed_by_json(patch: &Value) -> Changed {
    operations(patch).map_or(Changed::Whole, |operations| Changed::by_json_patch(&operations))
}

/// JSON patch, RFC 6902.
pub fn json(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = operations(patch)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooMany(operations.len()));
    }
    let mut patched = object.clone();
    let mut copied = 0;
    let mut nesting = depth(&patched);
    for operation in operations.iter() {
        copied += size_of_copy(&patched, operation);
        if copied > MAX_COPIED {
            return Err(PatchError::Rejected);
        }
        // A partial result is dropped here. (`json_patch::patch` would undo it, and panics where it cannot.)
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation))
            .map_err(|_| PatchError::Rejected)?;
        nesting = nesting.max(nesting_after(nesting, operation));
        if nesting > MAX_NESTING {
            nesting = depth(&patched); // the bound may be too high
        }
        if nesting > MAX_NESTING {
            return Err(PatchError::Rejected);
        }
    }
    Ok(patched)
}

/// Upper bound of the nesting depth that an operation produces in an object of depth `nesting`, without traversing it.
fn nesting_after(nesting: usize, operation: &PatchOperation) -> usize {
    let moved = |from: usize, to: usize| to + nesting.saturating_sub(from);
    match operation {
        PatchOperation::Add(add) => add.path.count() + depth(&add.value),
        PatchOperation::Replace(replace) => replace.path.count() + depth(&replace.value),
        PatchOperation::Copy(copy) => moved(copy.from.count(), copy.path.count()),
        PatchOperation::Move(taken) => moved(taken.from.count(), taken.path.count()),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
    }
}

/// How much an operation copies, in bytes of JSON.
fn size_of_copy(object: &Value, operation: &PatchOperation) -> usize {
    match operation {
        PatchOperation::Copy(copy) => object
            .pointer(copy.from.as_str())
            .map_or(0, |value| value.to_string().len()),
        _ => 0,
    }
}

/// Merge patch, RFC 7386.
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    must_be_object(patch)?;
    let mut patched = object.clone();
    json_patch::merge(&mut patched, patch);
    Ok(patched)
}

/// Strategic merge patch of the built-in type `ty` (of [`crate::builtin::type_of`]): lists by their merge keys, the
/// directives `$patch`, `$retainKeys`, `$setElementOrder/LIST` and `$deleteFromPrimitiveList/LIST`.
pub fn strategic(object: &Value, patch: &Value, ty: &str) -> Result<Value, PatchError> {
    must_be_object(patch)?;
    strategic::apply_strategic(object, patch, ty)
}

fn must_be_object(patch: &Value) -> Result<(), PatchError> {
    if patch.is_object() {
        Ok(())
    } else {
        Err(PatchError::Malformed(
            "error decoding patch: the patch must be a JSON object".to_owned(),
        ))
    }
}
