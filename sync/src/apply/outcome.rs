//! What became of objects that were to be applied.

use std::collections::BTreeMap;

use crate::{health::evidence::Change, inventory::ObjectId};

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It was not there.
    Created,
    /// It was different.
    Configured,
    /// It was deleted and created again, for a field that cannot be changed.
    Recreated,
    /// It was as it should be; nothing was written.
    Unchanged,
    /// Its annotations asked for it to be left alone.
    Skipped,
    /// Another Kustomization holds it, and it is as declared; nothing was written.
    Shared,
}

/// What became of a plan: every object with its outcome, in the order of applying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Outcomes by object.
    pub outcomes: Vec<(ObjectId, Outcome)>,
    /// What the controllers of custom resources have to answer, by object.
    pub changes: BTreeMap<ObjectId, Change>,
}

impl Outcome {
    /// Whether the object was written.
    pub fn is_change(self) -> bool {
        match self {
            Self::Created | Self::Configured | Self::Recreated => true,
            Self::Unchanged | Self::Skipped | Self::Shared => false,
        }
    }

    /// The outcome if the object was written already, or not, before it came to this.
    pub(super) fn after(self, written: bool) -> Self {
        match self {
            Self::Unchanged if written => Self::Configured,
            outcome => outcome,
        }
    }
}

impl Applied {
    /// Whether anything was written.
    pub fn changed(&self) -> bool {
        self.outcomes.iter().any(|(_, outcome)| outcome.is_change())
    }

    /// How many objects came out like that.
    pub fn count(&self, wanted: Outcome) -> usize {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == wanted)
            .count()
    }
}
