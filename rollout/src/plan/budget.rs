//! Rule 2, budget of unavailable units: a change of an available unit starts only while few others are changing or
//! unavailable.

use super::{Pass, limit::count, stages::NAMED, withdraw::is_active};
use crate::{InFlight, StagePosition, Unit, UnitId, Why};

/// How many more available units may start to change; None: no limit.
pub(super) struct Budget(Option<u32>);

impl Pass<'_> {
    pub(super) fn budget(&self) -> Budget {
        self.budget_beside(|_, _| true)
    }

    /// The budget in units: a percentage refers to all selected units, eligible or not.
    pub(super) fn budget_limit(&self) -> Option<u32> {
        Some(self.spec.unavailable?.of(self.counts.selected))
    }

    /// Whether a change of the unit uses the budget: it is available and not changing yet.
    pub(super) fn uses_budget(&self, unit: &Unit) -> bool {
        !is_unavailable(unit) && !self.in_flight_of(unit).is_some_and(is_changing)
    }

    /// The reason of units that do not fit into the budget; None without a budget.
    pub(super) fn full_budget(&self) -> Option<Why> {
        let limit = self.budget_limit()?;
        Some(Why::WaitingBudget {
            holders: self.disrupted(|_, _| true).take(NAMED).cloned().collect(),
            limit,
        })
    }

    /// The same for units in flight to which nothing was sent yet: the number that fits in addition to all others.
    pub(super) fn budget_of_unsent(&self) -> Budget {
        let unsent = |unit: &Unit, change: &InFlight| {
            change.counts() && change.sent.is_none() && !change.doubtful && !change.is_written(unit)
        };
        self.budget_beside(|unit, change| !unsent(unit, change))
    }

    fn budget_beside(&self, those: impl Fn(&Unit, &InFlight) -> bool) -> Budget {
        let limit = self.budget_limit();
        Budget(limit.map(|limit| limit.saturating_sub(count(self.disrupted(those)))))
    }

    /// The selected units that are unavailable, and all that are changing; of the units in flight in the view only the
    /// changing ones.
    fn disrupted(&self, those: impl Fn(&Unit, &InFlight) -> bool) -> impl Iterator<Item = &UnitId> {
        let changes = self
            .memory
            .in_flight
            .iter()
            .filter(|(_, change)| is_changing(change));
        let hidden = changes.filter(|(id, change)| self.unit_of(id, change).is_none());
        let visible = self.with_in_flight().filter(move |(unit, change)| {
            let own = change.filter(|change| change.incarnation == unit.incarnation && is_changing(change));
            own.is_some_and(|change| those(unit, change)) || is_unavailable(unit)
        });
        hidden.map(|(id, _)| id).chain(visible.map(|(unit, _)| &unit.id))
    }
}

impl Budget {
    /// Whether there is a budget: only then is a unit checked for its use.
    pub(super) const fn is_bounded(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a unit may start to change.
    pub(super) fn admit(&self, uses: bool) -> bool {
        !uses || self.0 != Some(0)
    }

    pub(super) fn take(&mut self, uses: bool) {
        if let Some(room) = self.0.as_mut().filter(|_| uses) {
            *room = room.saturating_sub(1);
        }
    }
}

/// Whether the unit is selected and unavailable.
pub(super) fn is_unavailable(unit: &Unit) -> bool {
    unit.selected() && unit.place != StagePosition::Excluded && !unit.is_available()
}

/// Whether the unit of this in-flight change is changing: it takes a slot, or is being withdrawn from.
fn is_changing(change: &InFlight) -> bool {
    change.counts() || is_active(change)
}
