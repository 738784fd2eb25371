//! Rule 13: which domains change at the same time, how many units of each, and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Pass, stages::NAMED};
use crate::{Domain, Kind, Unit, UnitId};

/// The domain of a unit; a unit without one is its own domain, which comes after all others.
pub(super) type Key<'a> = Result<Domain, &'a UnitId>;

/// The room for more changes beside the units in flight.
#[derive(Default)]
pub(super) struct DomainWindows<'a> {
    /// Number of units in flight of each domain.
    in_flight: BTreeMap<Key<'a>, u32>,
    /// Units in flight that are not in the view: each may be of any domain.
    unknown: u32,
    /// Maximum number of domains that may change at the same time.
    at_once: Option<u32>,
    /// Maximum number of units in flight of each domain; empty without a limit.
    limits: BTreeMap<Key<'a>, u32>,
    /// The domains whose turn it is, if domains are ordered.
    open: Option<BTreeSet<Key<'a>>>,
    /// Some units that later domains wait for.
    ahead: Arc<[UnitId]>,
}

impl<'a> Pass<'a> {
    pub(super) fn domains(&self) -> DomainWindows<'a> {
        let spec = self.spec.domains;
        let mut windows = DomainWindows {
            at_once: spec.at_once,
            ..DomainWindows::default()
        };
        if !spec.constrain() {
            return windows;
        }
        if let Some(limit) = spec.limit {
            let mut sizes: BTreeMap<Key<'_>, u32> = BTreeMap::new();
            for unit in self.units.iter().filter(|unit| unit.is_base()) {
                *sizes.entry(key(unit)).or_default() += 1;
            }
            windows.limits = sizes
                .into_iter()
                .map(|(key, size)| (key, limit.of(size)))
                .collect();
        }
        for (id, change) in self.memory.in_flight.iter().filter(|(_, change)| change.counts()) {
            match self.unit_of(id, change) {
                Some(unit) => windows.take(unit),
                None => windows.unknown += 1,
            }
        }
        if let Some(at_once) = spec.at_once.filter(|_| spec.ordered) {
            let (open, ahead) = self.open_domains(at_once);
            (windows.open, windows.ahead) = (Some(open), ahead);
        }
        windows
    }

    /// The first domains that are not done, and some of their unconfirmed units. Units of a later stage hold up no
    /// domain: otherwise two orders could wait for each other.
    fn open_domains(&self, at_once: u32) -> (BTreeSet<Key<'a>>, Arc<[UnitId]>) {
        let undone = |unit: &&&'a Unit| {
            unit.is_needed() && !self.is_confirmed(unit) && self.is_open(unit, Kind::Assign)
        };
        let undone: BTreeSet<(Key<'a>, &UnitId)> = self
            .units
            .iter()
            .filter(undone)
            .map(|unit| (key(unit), &unit.id))
            .collect();
        let mut open: BTreeSet<Key<'a>> = undone.iter().map(|(key, _)| *key).collect();
        if let Some(first) = open
            .iter()
            .nth(usize::try_from(at_once).unwrap_or(usize::MAX))
            .copied()
        {
            open.split_off(&first);
        }
        let ahead = undone.iter().filter(|(key, _)| open.contains(key)).take(NAMED);
        let ahead = ahead.map(|(_, id)| (*id).clone()).collect();
        (open, ahead)
    }

    /// Whether the unit waits for the order of domains: for the target, not for reverting, joining, or following its
    /// pin.
    pub(super) fn is_in_order(&self, unit: &Unit, kind: Kind) -> bool {
        let of_the_run = || !unit.pinned || self.is_run_for(unit);
        self.spec.domains.ordered && kind == Kind::Assign && of_the_run()
    }
}

impl<'a> DomainWindows<'a> {
    /// Whether its change may start beside those in flight.
    pub(super) fn admit(&self, unit: &Unit, in_order: bool) -> bool {
        self.is_open(unit, in_order) && self.has_room(unit)
    }

    /// Some units of the domains before its own, if its turn has not come.
    pub(super) fn ahead(&self, unit: &Unit, in_order: bool) -> Option<Arc<[UnitId]>> {
        (!self.is_open(unit, in_order)).then(|| self.ahead.clone())
    }

    fn is_open(&self, unit: &Unit, in_order: bool) -> bool {
        !in_order || self.open.as_ref().is_none_or(|open| open.contains(&key(unit)))
    }

    fn has_room(&self, unit: &Unit) -> bool {
        if !self.is_bounded() {
            return true;
        }
        let key = key(unit);
        let in_flight = self.in_flight.get(&key).copied();
        let changing =
            u32::try_from(self.in_flight.len()).unwrap_or(u32::MAX) + u32::from(in_flight.is_none());
        let at_once = self
            .at_once
            .is_none_or(|most| changing.saturating_add(self.unknown) <= most);
        let limit = self.limits.get(&key);
        at_once && limit.is_none_or(|most| in_flight.unwrap_or_default().saturating_add(self.unknown) < *most)
    }

    /// Whether the domains of units in flight matter.
    fn is_bounded(&self) -> bool {
        self.at_once.is_some() || !self.limits.is_empty()
    }

    pub(super) fn take(&mut self, unit: &'a Unit) {
        if !self.is_bounded() {
            return;
        }
        *self.in_flight.entry(key(unit)).or_default() += 1;
    }
}

pub(super) fn key(unit: &Unit) -> Key<'_> {
    unit.domain.ok_or(&unit.id)
}
