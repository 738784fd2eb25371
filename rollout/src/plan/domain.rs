//! Rule 13: charged units share one domain.

use std::collections::BTreeSet;

use super::Pass;
use crate::{Domain, Unit, UnitId};

/// Units of one domain are equal; who shares nothing is its own.
type Key<'a> = Result<Domain, &'a UnitId>;

/// The domains of the units that are charged.
pub(super) struct Domains<'a> {
    taken: BTreeSet<Key<'a>>,
    /// There is only to be one.
    exclusive: bool,
    /// Of somebody who is charged the domain is not known, as it is not in the view.
    unknown: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn domains(&self) -> Domains<'a> {
        let mut domains = Domains {
            taken: BTreeSet::new(),
            exclusive: self.spec.exclusive,
            unknown: false,
        };
        if self.spec.exclusive {
            for (id, charge) in self.memory.charges.iter().filter(|(_, charge)| charge.counts()) {
                match self.unit_of(id, charge) {
                    Some(unit) => domains.take(unit),
                    None => domains.unknown = true,
                }
            }
        }
        domains
    }
}

impl<'a> Domains<'a> {
    /// It may be charged beside those that are.
    pub(super) fn admit(&self, unit: &Unit) -> bool {
        !self.exclusive || !self.unknown && self.taken.iter().all(|taken| *taken == domain(unit))
    }

    pub(super) fn take(&mut self, unit: &'a Unit) {
        if self.exclusive {
            self.taken.insert(domain(unit));
        }
    }
}

fn domain(unit: &Unit) -> Key<'_> {
    unit.domain.ok_or(&unit.id)
}
