//! The patch that an updater answers for one object.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an updater would change of an object. Empty: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Patch {
    /// `JSONPatch` (RFC 6902) or `JSONMergePatch` (RFC 7386).
    pub patch_type: String,
    /// The document, in base64.
    pub patch: String,
}

/// Why a patch cannot be applied; texts as Cluster API has them, which is where they are read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// There is a patch without its type.
    #[error("failed to apply patch: patchType is not set")]
    NoType,
    /// The type is neither of the two.
    #[error("failed to apply patch: unknown patchType {0}")]
    UnknownType(String),
    /// The document is not base64, or not a patch of its type.
    #[error("failed to apply patch: error decoding json patch (RFC{rfc}): {problem}")]
    Decode {
        /// 6902 or 7386.
        rfc: u16,
        /// In words.
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

    /// The object after the patch; nothing if there is no patch.
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
