//! Rules 3 and 12: who comes first. Total and stable.

use super::Pass;
use crate::{State, Unit, UnitId};

/// The place of a unit that waits for its turn.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    group: Group,
    id: UnitId,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// It has a revision that is known to be bad: changing it is the fix.
    HoldsBad,
    /// It is ready, or has nothing.
    Ready,
    /// It is not, and will not tell much about the revision.
    Unready,
}

impl Pass<'_> {
    pub(super) fn place(&self, unit: &Unit) -> Place {
        let holds_bad = unit
            .carried_revision()
            .is_some_and(|revision| self.memory.is_bad(revision));
        let group = match (holds_bad, is_ready(unit)) {
            (true, _) => Group::HoldsBad,
            (false, true) => Group::Ready,
            (false, false) => Group::Unready,
        };
        Place {
            group,
            id: unit.id.clone(),
        }
    }
}

/// It is seen as succeeded at what its row says, or has nothing.
pub(super) fn is_ready(unit: &Unit) -> bool {
    unit.is_empty() || unit.state_at_row() == Some(&State::Succeeded)
}
