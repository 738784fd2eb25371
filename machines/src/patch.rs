//! The patch of one object in an updater's answer.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The changes that an updater would make to an object; empty if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Patch {
    /// `JSONPatch` (RFC 6902) or `JSONMergePatch` (RFC 7386).
    pub patch_type: String,
    /// The patch document, base64-encoded.
    pub patch: String,
}

/// Why a patch cannot be applied. The messages are those of Cluster API, which shows them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// A patch without a type.
    #[error("failed to apply patch: patchType is not set")]
    NoType,
    /// The type is neither `JSONPatch` nor `JSONMergePatch`.
    #[error("failed to apply patch: unknown patchType {0}")]
    UnknownType(String),
    /// The document is not base64, or not a patch of its type.
    #[error("failed to apply patch: error decoding json patch (RFC{rfc}): {problem}")]
    Decode {
        /// The number of the RFC: 6902 or 7386.
        rfc: u16,
        /// The error message.
        problem: String,
    },
    /// The patch does not fit the object.
    #[error("failed to apply patch: error applying json patch (RFC6902): {0}")]
    Apply(String),
}

impl Patch {
    /// A JSON patch.
    pub fn json(patch: &json_patch::Patch) -> Self {
        let text = serde_json::to_string(patch).unwrap_or_default();
        Self {
            patch_type: "JSONPatch".to_owned(),
            patch: BASE64_STANDARD.encode(text),
        }
    }

    /// The object after the patch; `None` if there is no patch.
    pub(crate) fn applied(&self, object: &Value) -> Result<Option<Value>, PatchError> {
        if self.patch_type.is_empty() && self.patch.is_empty() {
            return Ok(None);
        }
        let rfc = match self.patch_type.as_str() {
            "JSONPatch" => 6902,
            "JSONMergePatch" => 7386,
            "" => return Err(PatchError::NoType),
            other => return Err(PatchError::UnknownType(other.to_owned())),
        };
        let decode = |problem: String| PatchError::Decode { rfc, problem };
        let bytes = BASE64_STANDARD
            .decode(&self.patch)
            .map_err(|error| decode(error.to_string()))?;
        let mut patched = object.clone();
        if rfc == 7386 {
            if bytes.is_empty() {
                return Ok(None);
            }
            let patch: Value = serde_json::from_slice(&bytes).map_err(|error| decode(error.to_string()))?;
            json_patch::merge(&mut patched, &patch);
        } else {
            let patch: json_patch::Patch =
                serde_json::from_slice(&bytes).map_err(|error| decode(error.to_string()))?;
            json_patch::patch(&mut patched, &patch.0)
                .map_err(|error| PatchError::Apply(error.to_string()))?;
        }
        Ok(Some(patched))
    }
}
