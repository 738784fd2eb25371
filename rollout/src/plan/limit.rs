//! Rule 2: how many at once.

use super::Pass;
use crate::{Limit, Strategy};

impl Pass<'_> {
    /// The limit in units.
    pub(super) fn limit(&self) -> u32 {
        let selected = count(self.units.iter().filter(|unit| unit.selected()));
        match self.spec.strategy {
            Strategy::Replace => selected,
            Strategy::Incremental => self.spec.limit.of(self.eligible()).min(selected),
        }
    }

    /// The units that fill it.
    pub(super) fn charged(&self) -> u32 {
        count(self.memory.charges.values().filter(|charge| charge.counts()))
    }

    /// How many failures are tolerated.
    pub(super) fn max_failed(&self) -> u32 {
        self.spec.max_failed.of(self.eligible())
    }

    fn eligible(&self) -> u32 {
        count(
            self.units
                .iter()
                .filter(|unit| unit.selected() && unit.is_eligible()),
        )
    }
}

impl Limit {
    /// In units of this whole: a percentage is rounded down, but is at least one when above zero.
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
