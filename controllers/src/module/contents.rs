//! The clusters of a module as units, with what their rows may hold. Plain data.

use std::{collections::BTreeMap, sync::Arc};

use muster_api::assemblage::SyncRow;
use muster_rollout as engine;

use super::{facts::Values, rows::Print};

/// What a row is to hold, without its token.
#[derive(Debug)]
pub(crate) struct Content {
    /// The row.
    pub row: SyncRow,
    /// Its revision.
    pub revision: engine::Revision,
    /// Its digest.
    pub digest: engine::Digest,
    /// What the row says.
    pub print: Print,
}

/// The contents that rows may get: an entry for each cluster, in the order of their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents(Vec<Choice>);

/// What one cluster's row may hold.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The cluster.
    pub unit: engine::UnitId,
    /// What it shall have.
    pub wanted: Option<Arc<Content>>,
    /// What it would go back to.
    pub last_good: Option<Arc<Content>>,
}

impl Contents {
    /// Sets the entry of a cluster by its place.
    pub(crate) fn put(&mut self, place: usize, choice: Choice) {
        match self.0.get_mut(place) {
            Some(old) => *old = choice,
            None => self.0.push(choice),
        }
    }

    /// What a cluster's row is to hold for a digest.
    pub(crate) fn get(&self, cluster: &str, digest: engine::Digest) -> Option<&Content> {
        let place = self
            .0
            .binary_search_by(|choice| choice.unit.as_str().cmp(cluster));
        self.0.get(place.ok()?)?.get(digest)
    }
}

impl Choice {
    /// What it goes back to may be what it shall have, under another name of the version.
    pub(crate) fn get(&self, digest: engine::Digest) -> Option<&Content> {
        let all = [&self.last_good, &self.wanted].into_iter().flatten();
        all.map(|content| &**content)
            .find(|content| content.digest == digest)
    }
}

/// Contents of one definition by the values that they were made for.
pub(crate) type Made = BTreeMap<Values, Result<Option<Arc<Content>>, String>>;

/// The clusters as units, and the contents that rows may get.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    /// One for each cluster that was seen.
    pub all: Vec<engine::Unit>,
    /// What their rows may hold.
    pub contents: Contents,
    /// Why a cluster cannot be touched, for people.
    pub obstacles: BTreeMap<String, String>,
    /// The contents that were made so far of the target, and of what clusters would go back to.
    pub made: [Made; 2],
}
