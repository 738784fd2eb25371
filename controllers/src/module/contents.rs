//! The clusters of a module as units, with the contents that their rows may get. Plain data.

use std::{collections::BTreeMap, sync::Arc};

use muster_api::assemblage::SyncRow;
use muster_rollout as engine;

use super::{facts::Values, rows::Print};

/// The content of a row, without its token.
#[derive(Debug)]
pub(crate) struct Content {
    /// The sync as a row of an assemblage.
    pub row: SyncRow,
    /// Revision of the module.
    pub revision: engine::Revision,
    /// Digest of the content for this cluster.
    pub digest: engine::Digest,
    /// Fingerprint of the row's content.
    pub print: Print,
}

/// The possible row contents: an entry for each cluster, in the order of their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents(Vec<Choice>);

/// The possible row contents of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The cluster as a unit.
    pub unit: engine::UnitId,
    /// The desired content.
    pub wanted: Option<Arc<Content>>,
    /// The last good content, for a rollback.
    pub last_good: Option<Arc<Content>>,
}

impl Contents {
    /// Sets the entry at an index, which is that of the cluster.
    pub(crate) fn put(&mut self, place: usize, choice: Choice) {
        match self.0.get_mut(place) {
            Some(old) => *old = choice,
            None => self.0.push(choice),
        }
    }

    /// The content of a cluster's row with this digest.
    pub(crate) fn get(&self, cluster: &str, digest: engine::Digest) -> Option<&Content> {
        let place = self
            .0
            .binary_search_by(|choice| choice.unit.as_str().cmp(cluster));
        self.0.get(place.ok()?)?.get(digest)
    }
}

impl Choice {
    /// The last good content may equal the desired content, under another name of the version.
    pub(crate) fn get(&self, digest: engine::Digest) -> Option<&Content> {
        let all = [&self.last_good, &self.wanted].into_iter().flatten();
        all.map(|content| &**content)
            .find(|content| content.digest == digest)
    }
}

/// Contents of one definition by the values that they were rendered with.
pub(crate) type Made = BTreeMap<Values, Result<Option<Arc<Content>>, String>>;

/// The clusters as units, and the contents that their rows may get.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    /// One unit for each observed cluster.
    pub all: Vec<engine::Unit>,
    /// The possible contents of their rows.
    pub contents: Contents,
    /// Why a cluster cannot be changed, as a message.
    pub obstacles: BTreeMap<String, String>,
    /// The contents rendered so far: of the target, and of the last good revision.
    pub made: [Made; 2],
}
