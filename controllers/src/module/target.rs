//! A module's target once its version is known, and the message until then: for sources that muster reads and for those
//! of Flux. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_api::{
    digest,
    module::{ModuleObject, SourceStatus},
};

use super::facts::{Definition, Target};

/// The target at a pinned version.
pub(super) fn known<K: ModuleObject>(module: &K, source: SourceStatus, moved_to: Option<String>) -> Target {
    let spec = module.spec();
    let mut sync = spec.sync.clone();
    sync.source = sync.source.for_rows();
    let definition = Definition::new(
        digest::revision(&source.commit, &sync, &spec.control_plane_bindings),
        source.commit.clone(),
        sync,
        spec.control_plane_bindings.clone(),
    );
    Target::Known {
        definition: Box::new(definition),
        source,
        moved_to,
    }
}

/// The clusters' present version, for messages while the version cannot be resolved.
pub(super) fn last_version<K: ModuleObject>(module: &K) -> String {
    let before = module.status().and_then(|status| status.source.as_ref());
    before.map_or_else(
        || "nothing was rolled out yet".to_owned(),
        |source| {
            let version = source.tag.as_deref().unwrap_or(&source.commit);
            let at = source
                .fetched_at
                .as_ref()
                .map_or_else(String::new, |at| format!(", resolved {}", at.0));
            format!("clusters keep what they have (last version: {version}{at})")
        },
    )
}

/// A time plus a duration, saturating.
pub(super) fn later(at: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}
