//! Rules 3 and 12: who comes first. Total and stable.

use super::{Pass, assign::Wanted};
use crate::{State, Unit};

impl<'a> Pass<'a> {
    /// The first units of those that wait for a slot, with what they get.
    ///
    /// First who has a revision that is known to be bad, as changing it is the fix; then who is ready, or has nothing;
    /// then who is not, and will not tell much about the revision. Within each by name, which is the order of the units.
    pub(super) fn first(&self, most: usize) -> Vec<(&'a Unit, Wanted)> {
        let (mut bad, mut ready, mut unready) = (Vec::new(), Vec::new(), Vec::new());
        if most == 0 {
            return bad;
        }
        for (unit, charge) in self.with_charges() {
            let Some(wanted) = self.next(unit, charge) else {
                continue;
            };
            let holds_bad = unit
                .carried_revision()
                .is_some_and(|revision| self.memory.is_bad(revision));
            let group = match (holds_bad, is_ready(unit)) {
                (true, _) => &mut bad,
                (false, true) => &mut ready,
                (false, false) => &mut unready,
            };
            if group.len() < most {
                group.push((unit, wanted));
            }
            if ready.len() == most && self.memory.bad.is_empty() {
                break; // nobody who comes later goes before these
            }
        }
        bad.append(&mut ready);
        bad.append(&mut unready);
        bad.truncate(most);
        bad
    }
}

/// It is seen as succeeded at what its row says, or has nothing.
pub(super) fn is_ready(unit: &Unit) -> bool {
    unit.is_empty() || unit.state_at_row() == Some(&State::Succeeded)
}
