//! What failed on this node, and is not tried again until it changes.

use serde::{Deserialize, Serialize};

use crate::{content::Key, outcome::Outcome};

/// How many are remembered; the oldest goes first.
pub(crate) const MOST: usize = 64;

/// A content that failed here for its own reasons.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct KnownBad {
    /// Hash of the content.
    pub digest: String,
    /// Number of the try.
    pub attempt: u64,
    /// Hash of what the content named in the node's configuration.
    pub definitions: String,
    /// How it failed.
    pub outcome: Outcome,
}

impl KnownBad {
    /// Whether a try would be the same again: its token does not matter.
    pub fn is_about(&self, key: &Key) -> bool {
        self.digest == key.digest && self.attempt == key.attempt && self.definitions == key.definitions
    }
}

/// Adds one, and drops the oldest beyond [`MOST`].
pub(crate) fn remember(all: &mut Vec<KnownBad>, key: &Key, outcome: &Outcome) {
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
