//! Rule 2, of units that are not available: a change of an available unit begins only while few others are changing or not available.

use super::{Pass, limit::count, stages::NAMED, withdraw::is_active};
use crate::{Charge, Place, Unit, UnitId, Why};

/// How many more available units may begin to change. None: any number.
pub(super) struct Budget(Option<u32>);

impl Pass<'_> {
    pub(super) fn budget(&self) -> Budget {
        self.budget_beside(|_, _| true)
    }

    /// The budget in units: a percentage is of the selected units, whether they can be touched or not.
    pub(super) fn budget_limit(&self) -> Option<u32> {
        Some(self.spec.unavailable?.of(self.counts.selected))
    }

    /// A change of it uses the budget: it does not count as unavailable, and is not changing yet.
    pub(super) fn uses_budget(&self, unit: &Unit) -> bool {
        !is_unavailable(unit) && !self.charge_of(unit).is_some_and(changes)
    }

    /// Why a unit waits that the budget has no room for; None: there is no budget.
    pub(super) fn full_budget(&self) -> Option<Why> {
        let limit = self.budget_limit()?;
        Some(Why::WaitingBudget {
            holders: self.disrupted(|_, _| true).take(NAMED).cloned().collect(),
            limit,
        })
    }

    /// The same for units that are charged and to which nothing was sent yet: what fits beside all others.
    pub(super) fn budget_of_unsent(&self) -> Budget {
        let unsent = |unit: &Unit, charge: &Charge| {
            charge.counts() && charge.sent.is_none() && !charge.doubtful && !charge.is_written(unit)
        };
        self.budget_beside(|unit, charge| !unsent(unit, charge))
    }

    fn budget_beside(&self, those: impl Fn(&Unit, &Charge) -> bool) -> Budget {
        let limit = self.budget_limit();
        Budget(limit.map(|limit| limit.saturating_sub(count(self.disrupted(those)))))
    }

    /// The selected units that are not available, and all that are changing; of the charged ones in the view only those.
    fn disrupted(&self, those: impl Fn(&Unit, &Charge) -> bool) -> impl Iterator<Item = &UnitId> {
        let charges = self.memory.charges.iter().filter(|(_, charge)| changes(charge));
        let hidden = charges.filter(|(id, charge)| self.unit_of(id, charge).is_none());
        let seen = self.with_charges().filter(move |(unit, charge)| {
            let own = charge.filter(|charge| charge.incarnation == unit.incarnation && changes(charge));
            own.is_some_and(|charge| those(unit, charge)) || is_unavailable(unit)
        });
        hidden.map(|(id, _)| id).chain(seen.map(|(unit, _)| &unit.id))
    }
}

impl Budget {
    /// There is one: of a unit it is asked only then whether it uses it.
    pub(super) const fn is_bounded(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a unit may begin to change.
    pub(super) fn admit(&self, uses: bool) -> bool {
        !uses || self.0 != Some(0)
    }

    pub(super) fn take(&mut self, uses: bool) {
        if let Some(room) = self.0.as_mut().filter(|_| uses) {
            *room = room.saturating_sub(1);
        }
    }
}

/// It is one of the selected units, and does not do its work.
pub(super) fn is_unavailable(unit: &Unit) -> bool {
    unit.selected() && unit.place != Place::Excluded && !unit.is_available()
}

/// The unit of this charge is changing: it takes a slot, or is being withdrawn from.
fn changes(charge: &Charge) -> bool {
    charge.counts() || is_active(charge)
}
