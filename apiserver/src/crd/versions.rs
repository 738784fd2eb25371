//! The versions of a definition, compared.

use serde_json::Value;

/// Whether all versions have the same there.
pub(super) fn alike(versions: &[Value], field: &str) -> bool {
    versions
        .iter()
        .all(|version| version[field] == versions[0][field])
}
