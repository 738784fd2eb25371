//! The results of applying objects.

use std::collections::BTreeMap;

use crate::{health::evidence::Change, inventory::ObjectId};

/// What was done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApplyOutcome {
    /// The object did not exist.
    Created,
    /// The object was different.
    Configured,
    /// The object was deleted and created again because of an immutable field.
    Recreated,
    /// The object was up to date; nothing was written.
    Unchanged,
    /// Skipped because of its annotations.
    Skipped,
    /// Another Kustomization holds the object, and it is as declared; nothing was written.
    Shared,
}

/// The result of applying a plan: every object with its outcome, in the order of applying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Outcomes by object.
    pub outcomes: Vec<(ObjectId, ApplyOutcome)>,
    /// What the controllers of custom resources must report before the objects are healthy, by object.
    pub changes: BTreeMap<ObjectId, Change>,
}

impl ApplyOutcome {
    /// Whether the object was written.
    pub fn is_change(self) -> bool {
        match self {
            Self::Created | Self::Configured | Self::Recreated => true,
            Self::Unchanged | Self::Skipped | Self::Shared => false,
        }
    }

    /// The outcome, given whether the object was written in an earlier step.
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

    /// How many objects had this outcome.
    pub fn count(&self, wanted: ApplyOutcome) -> usize {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == wanted)
            .count()
    }
}
