//! W5, for units whose change window is closed: no change begins, and a change that was decided and is not written is
//! fenced. A written change continues.

use super::{Pass, next_content::waits};
use crate::{Desired, Eligible, InFlight, Kind, Unit, Why};

impl Pass<'_> {
    /// Fences each change that is not written and may not begin now, or drops it if nothing was issued.
    pub(super) fn hold_back(&mut self) {
        let changes = self.memory.in_flight.iter();
        let closed: Vec<(&Unit, InFlight)> = changes
            .filter_map(|(id, change)| Some((self.unit_of(id, change)?, *change)))
            .filter(|(unit, _)| is_closed(unit))
            .collect();
        for (unit, change) in closed {
            let fenced = change.kind == Kind::Fence && !change.is_written(unit) && !change.has_begun(unit);
            if fenced {
                self.memory.in_flight.insert(unit.id.clone(), unbegun(change));
            } else if !change.skipped && is_barred(unit, &change) {
                self.stop(unit, change);
            }
        }
    }

    /// The fence of a withdrawal may have to wait for a slot of the limit; the withdrawal is not repeated in the
    /// meantime.
    fn stop(&mut self, unit: &Unit, change: InFlight) {
        let assigns = change.kind.is_assignment();
        if assigns {
            self.free_place();
        }
        if assigns && change.sent.is_none() && !change.doubtful && unit.is_quiet() {
            // Nothing was issued on the slot, so no late write can arrive.
            self.memory.in_flight.remove(&unit.id);
        } else if change.counts() || self.in_flight_count() < self.limit() {
            let token = self.issue();
            let fence = change.redirected(Kind::Fence, token, change.since);
            self.memory.in_flight.insert(unit.id.clone(), unbegun(fence));
        }
    }

    /// Why the change of a unit does not begin, unless a reason with a higher priority applies.
    pub(super) fn why_held_back(&self, unit: &Unit, change: &InFlight) -> Option<Why> {
        let Eligible::Closed { why: reason, .. } = unit.eligible else {
            return None;
        };
        let held_back = change.unbegun || is_barred(unit, change);
        let known = match unit.desired {
            Desired::Unresolved => false,
            Desired::Content { revision, .. } => !self.memory.refuses(revision),
            Desired::Nothing => true,
        };
        let late = change.is_overdue(&self.spec.deadlines, self.now);
        let fails = unit.failure_at_assignment().is_some() || late;
        (held_back && known && !fails && !self.spec.paused).then_some(Why::Closed { reason })
    }
}

const fn unbegun(change: InFlight) -> InFlight {
    InFlight {
        unbegun: true,
        resumed: false,
        ..change
    }
}

/// Whether its slot must not get a change of this kind yet. A change that has begun is retargeted even while the window
/// is closed.
pub(super) fn must_wait(unit: &Unit, change: &InFlight, kind: Kind) -> bool {
    waits(unit, kind) && !(is_closed(unit) && change.has_begun(unit))
}

/// Whether its change is not written and must not be: a window is closed, and no change of the unit has begun.
pub(super) fn is_barred(unit: &Unit, change: &InFlight) -> bool {
    let Eligible::Closed { withdrawals, .. } = unit.eligible else {
        return false;
    };
    if change.is_written(unit) {
        return false;
    }
    match change.kind {
        Kind::Withdraw => !withdrawals,
        Kind::Assign | Kind::Join | Kind::Revert => waits(unit, change.kind) && !change.has_begun(unit),
        Kind::Relapsed | Kind::Fence | Kind::Abandon => false,
    }
}

pub(super) const fn is_closed(unit: &Unit) -> bool {
    matches!(unit.eligible, Eligible::Closed { .. })
}
