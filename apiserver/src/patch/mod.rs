//! The three patch types besides server-side apply: JSON patch, merge patch, strategic merge patch.

mod strategic;

#[cfg(test)]
mod tests;

use serde_json::Value;

/// Why a patch could not be carried out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself cannot be read: 400 BadRequest.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object, e.g. a JSON patch whose `test` fails: 422 Invalid without causes.
    #[error("the server rejected our request due to an error in our request")]
    Rejected,
}

/// RFC 6902.
pub fn json(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("error decoding patch: {error}")))?;
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &operations).map_err(|_| PatchError::Rejected)?;
    Ok(patched)
}

/// RFC 7386.
pub fn merge(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    must_be_object(patch)?;
    let mut patched = object.clone();
    json_patch::merge(&mut patched, patch);
    Ok(patched)
}

/// Strategic merge patch of the built-in type `ty` (of [`crate::builtin::type_of`]): lists by their merge keys, the
/// directives `$patch`, `$retainKeys`, `$setElementOrder/LIST` and `$deleteFromPrimitiveList/LIST`.
pub fn strategic(object: &Value, patch: &Value, ty: &str) -> Result<Value, PatchError> {
    must_be_object(patch)?;
    strategic::apply(object, patch, ty)
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
