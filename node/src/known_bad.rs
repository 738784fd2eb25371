//! Contents that failed on this node, and are not tried again until they change.

use serde::{Deserialize, Serialize};

use crate::{content::Key, outcome::ChangeOutcome};

/// Maximum number of entries; the oldest one is dropped first.
pub(crate) const MOST: usize = 64;

/// A content that failed here because of the revision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct KnownBad {
    /// Hash of the content.
    pub digest: String,
    /// Number of the try.
    pub attempt: u64,
    /// Hash of the definitions that the content named in the node's configuration.
    pub definitions: String,
    /// The result of the failed change.
    pub outcome: ChangeOutcome,
}

impl KnownBad {
    /// Whether a try would be the same: its token does not matter.
    pub fn is_about(&self, key: &Key) -> bool {
        self.digest == key.digest && self.attempt == key.attempt && self.definitions == key.definitions
    }
}

/// Adds an entry, and drops the oldest ones beyond [`MOST`].
pub(crate) fn remember(all: &mut Vec<KnownBad>, key: &Key, outcome: &ChangeOutcome) {
    all.retain(|bad| !bad.is_about(key));
    all.push(KnownBad {
        digest: key.digest.clone(),
        attempt: key.attempt,
        definitions: key.definitions.clone(),
        outcome: outcome.clone(),
    });
    let surplus = all.len().saturating_sub(MOST);
    all.drain(..surplus);
}
