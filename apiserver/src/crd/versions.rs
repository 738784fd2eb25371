//! Comparison of the versions of a definition.

use serde_json::Value;

/// Whether all versions have the same value of `field`.
pub(super) fn alike(versions: &[Value], field: &str) -> bool {
    versions
        .iter()
        .all(|version| version[field] == versions[0][field])
}
