//! Rules 3, 6 and 12: the order of changes. Total and stable.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{
    Pass,
    domain::{Key, key},
    next_content::NextContent,
};
use crate::{Kind, StagePosition, State, Unit};

/// The class of a unit in the order: smaller ones first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// It has a revision that is known to be bad: changing it is the fix.
    HoldsBad,
    /// It is ready, or has nothing.
    Ready,
    /// It is not ready, so its result says little about the revision.
    Unready,
}

/// The sort key: stage, domain if domains are ordered, and class.
type Turn<'a> = (StagePosition, Option<Key<'a>>, Class);

impl<'a> Pass<'a> {
    /// The first of the units that may get a slot, with their content. They are ordered by stage, in each by domain if
    /// domains are ordered, then by class, then by name, which is the order of the units. Units that revert come first
    /// by their last change, latest first, whatever their stage.
    pub(super) fn first(&self, most: usize) -> Vec<(&'a Unit, NextContent)> {
        let mut chosen = Vec::new();
        if most == 0 {
            return chosen;
        }
        let mut domains = self.domains();
        let mut stages = self.stage_windows();
        let mut budget = self.budget();
        for (unit, wanted) in self.candidates(most) {
            if chosen.len() == most {
                break;
            }
            let in_order = self.is_in_order(unit, wanted.kind);
            let uses = budget.is_bounded() && self.uses_budget(unit);
            if stages.admit(unit) && domains.admit(unit, in_order) && budget.admit(uses) {
                domains.take(unit);
                stages.take(unit);
                budget.take(uses);
                chosen.push((unit, wanted));
            }
        }
        chosen
    }

    fn candidates(&self, most: usize) -> impl Iterator<Item = (&'a Unit, NextContent)> {
        let mut groups: BTreeMap<Turn<'_>, Vec<(&Unit, NextContent)>> = BTreeMap::new();
        let spec = self.spec;
        let plain = spec.stages.is_empty() && !spec.domains.constrain() && spec.unavailable.is_none();
        for (unit, change) in self.with_in_flight() {
            let wanted = self
                .next(unit, change)
                .filter(|wanted| self.is_open(unit, wanted.kind));
            let Some(wanted) = wanted else { continue };
            let class = self.class(unit);
            let place = if wanted.kind == Kind::Revert {
                StagePosition::default()
            } else {
                unit.place
            };
            let domain = self.is_in_order(unit, wanted.kind).then(|| key(unit));
            let group = groups.entry((place, domain, class)).or_default();
            group.push((unit, wanted));
            let enough = plain && class == Class::Ready && group.len() == most;
            if enough && self.memory.refuses_nothing() {
                break; // no later unit goes before these
            }
        }
        for group in groups.values_mut() {
            if group
                .first()
                .is_some_and(|(_, wanted)| wanted.kind == Kind::Revert)
            {
                group.sort_by_key(|(unit, _)| Reverse(unit.token()));
            }
        }
        groups.into_values().flatten()
    }

    fn class(&self, unit: &Unit) -> Class {
        let holds_bad = unit
            .carried_revision()
            .is_some_and(|revision| self.memory.refuses(revision));
        match (holds_bad, is_ready(unit)) {
            (true, _) => Class::HoldsBad,
            (false, true) => Class::Ready,
            (false, false) => Class::Unready,
        }
    }
}

/// It is observed as succeeded at its assignment, or has nothing.
pub(super) fn is_ready(unit: &Unit) -> bool {
    unit.is_empty() || unit.state_at_assignment() == Some(&State::Succeeded)
}
