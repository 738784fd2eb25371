//! Rule 2: how many units change at once.

use super::Pass;
use crate::{Limit, StagePosition, Strategy};

/// Numbers of units, which percentages refer to.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Selected units that are not excluded from all stages.
    pub(super) selected: u32,
    /// Those of them that are eligible.
    eligible: u32,
    /// Units that have content and are not abandoned.
    carrying: u32,
    /// Units that have content and are no longer selected.
    pub(super) leaving: u32,
}

impl Pass<'_> {
    pub(super) fn count_units(&self) -> Counts {
        let mut counts = Counts::default();
        for unit in &self.units {
            let included = unit.selected() && unit.place != StagePosition::Excluded;
            counts.selected += u32::from(included);
            counts.eligible += u32::from(included && unit.is_eligible());
            counts.leaving += u32::from(!unit.selected() && unit.carries().is_some());
            counts.carrying += u32::from(!unit.is_empty() && !self.is_abandoned(unit));
        }
        counts
    }

    /// The limit in units.
    pub(super) fn limit(&self) -> u32 {
        let Counts {
            selected, eligible, ..
        } = self.counts;
        match self.spec.strategy {
            Strategy::Replace => selected,
            Strategy::Incremental => self.spec.limit.of(eligible).min(selected),
        }
    }

    /// The units that take its slots.
    pub(super) fn in_flight_count(&self) -> u32 {
        count(self.memory.in_flight.values().filter(|change| change.counts()))
    }

    /// How many failures are tolerated. A percentage does not refer to eligible units only: unreachable units must not
    /// lead to a verdict.
    pub(super) fn max_failed(&self) -> u32 {
        self.spec.max_failed.of(self.counts.selected)
    }

    /// How many units may be withdrawn from at the same time.
    pub(super) fn withdraw_limit(&self) -> u32 {
        self.spec.withdraw.max.of(self.counts.carrying)
    }

    /// How many units may be deselected at once without an acknowledgement; None: any number.
    pub(super) fn brake_limit(&self) -> Option<u32> {
        let brake = self.spec.withdraw.brake?;
        Some(brake.of(self.counts.carrying).max(1))
    }
}

impl Limit {
    /// In units of this total: a percentage is rounded down, but is at least one if it is above zero.
    pub(super) fn of(self, whole: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(0) => 0,
            Self::Percent(percent) => {
                let part = u64::from(whole) * u64::from(percent.min(100)) / 100;
                u32::try_from(part).unwrap_or(u32::MAX).max(1)
            }
        }
    }
}

pub(super) fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}
