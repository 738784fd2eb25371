//! W5, for units whose change window is closed: no change begins, and a change that was decided and is not written is
//! fenced. A written change continues.

use super::{Pass, next_content::waits};
use crate::{Desired, Eligible, InFlight, Kind, Unit, Why};

impl Pass<'_> {
    /// Fences each change that is not written and may not begin now, or drops it if nothing was issued.
    pub(super) fn hold_back(&mut self) {
        let charges = self.memory.in_flight.iter();
        let closed: Vec<(&Unit, InFlight)> = charges
            .filter_map(|(id, charge)| Some((self.unit_of(id, charge)?, *charge)))
            .filter(|(unit, _)| is_closed(unit))
            .collect();
        for (unit, charge) in closed {
            let fenced = charge.kind == Kind::Fence && !charge.is_written(unit) && !charge.has_begun(unit);
            if fenced {
                self.memory.in_flight.insert(unit.id.clone(), unbegun(charge));
            } else if !charge.skipped && is_barred(unit, &charge) {
                self.stop(unit, charge);
            }
        }
    }

    /// The fence of a withdrawal may have to wait for a slot of the limit; the withdrawal is not repeated in the
    /// meantime.
    fn stop(&mut self, unit: &Unit, charge: InFlight) {
        let assigns = charge.kind.is_assignment();
        if assigns {
            self.free_place();
        }
        if assigns && charge.sent.is_none() && !charge.doubtful && unit.is_quiet() {
            // Nothing was issued on the slot, so no late write can arrive.
            self.memory.in_flight.remove(&unit.id);
        } else if charge.counts() || self.in_flight_count() < self.limit() {
            let token = self.issue();
            let fence = charge.redirected(Kind::Fence, token, charge.since);
            self.memory.in_flight.insert(unit.id.clone(), unbegun(fence));
        }
    }

    /// Why the change of a unit does not begin, unless a reason with a higher priority applies.
    pub(super) fn why_held_back(&self, unit: &Unit, charge: &InFlight) -> Option<Why> {
        let Eligible::Closed { why: reason, .. } = unit.eligible else {
            return None;
        };
        let held_back = charge.unbegun || is_barred(unit, charge);
        let known = match unit.desired {
            Desired::Unresolved => false,
            Desired::Content { revision, .. } => !self.memory.refuses(revision),
            Desired::Nothing => true,
        };
        let late = charge.is_overdue(&self.spec.deadlines, self.now);
        let fails = unit.failure_at_assignment().is_some() || late;
        (held_back && known && !fails && !self.spec.paused).then_some(Why::Closed { reason })
    }
}

const fn unbegun(charge: InFlight) -> InFlight {
    InFlight {
        unbegun: true,
        resumed: false,
        ..charge
    }
}

/// Whether its slot must not get a change of this kind yet. A change that has begun is retargeted even while the window
/// is closed.
pub(super) fn must_wait(unit: &Unit, charge: &InFlight, kind: Kind) -> bool {
    waits(unit, kind) && !(is_closed(unit) && charge.has_begun(unit))
}

/// Whether its change is not written and must not be: a window is closed, and no change of the unit has begun.
pub(super) fn is_barred(unit: &Unit, charge: &InFlight) -> bool {
    let Eligible::Closed { withdrawals, .. } = unit.eligible else {
        return false;
    };
    if charge.is_written(unit) {
        return false;
    }
    match charge.kind {
        Kind::Withdraw => !withdrawals,
        Kind::Assign | Kind::Join | Kind::Revert => waits(unit, charge.kind) && !charge.has_begun(unit),
        Kind::Relapsed | Kind::Fence | Kind::Abandon => false,
    }
}

pub(super) const fn is_closed(unit: &Unit) -> bool {
    matches!(unit.eligible, Eligible::Closed { .. })
}
