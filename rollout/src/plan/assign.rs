//! Rules 2, 7, 8, 9: what a unit should get, which units are retargeted on their slots, and which get a new slot.

use std::sync::Arc;

use super::Pass;
use super::next_content::{NextContent, waits};
use super::order::is_ready;
use super::stages::NAMED;
use super::window::must_wait;
use crate::{
    Desired, Digest, InFlight, Kind, MAX_IN_FLIGHT, OnFailure, OnJoin, Revision, StagePosition, Unit, UnitId,
};

impl Pass<'_> {
    /// What this unit gets next; None if that is unknown or known to be bad (rule 7).
    pub(super) fn next_content(&self, unit: &Unit, change: Option<&InFlight>) -> Option<NextContent> {
        let Desired::Content {
            revision,
            digest,
            last_good,
        } = unit.desired
        else {
            return None;
        };
        if self.memory.refuses(revision) {
            return self.way_back(unit, change, last_good);
        }
        let joins = match change {
            Some(change) => change.kind == Kind::Join && !change.failed,
            None => unit.is_empty(),
        };
        let first = self
            .open_run()
            .filter(|_| joins && self.spec.on_join == OnJoin::LastGood);
        let good = self.memory.last_good.filter(|good| *good != revision);
        match (first, good, last_good) {
            (Some(_), Some(revision), Some(digest)) => Some(NextContent {
                revision,
                digest,
                kind: Kind::Join,
            }),
            _ => Some(NextContent {
                revision,
                digest,
                kind: Kind::Assign,
            }),
        }
    }

    /// Rule 6: with `onFailure: Revert`, a unit that has a condemned revision returns to the last good revision; so
    /// does a unit without content.
    fn way_back(
        &self,
        unit: &Unit,
        change: Option<&InFlight>,
        last_good: Option<Digest>,
    ) -> Option<NextContent> {
        let refused = |revision: Revision| self.memory.refuses(revision);
        let good = self.memory.last_good.filter(|good| !refused(*good))?;
        let has_it = unit.carried_revision().is_some_and(refused)
            || change
                .is_some_and(|change| change.kind == Kind::Revert || change.revision.is_some_and(refused));
        let joins = unit.is_empty() && self.spec.on_join == OnJoin::LastGood;
        let may_revert = self.spec.on_failure == OnFailure::Revert && !unit.pinned;
        Some(NextContent {
            revision: good,
            digest: last_good.filter(|_| may_revert && (has_it || joins))?,
            kind: Kind::Revert,
        })
    }

    /// Rule 9: units in flight are the first to get the new desired content, on their slots.
    pub(super) fn retarget(&mut self) {
        if self.spec.paused {
            return;
        }
        for (id, change) in self.memory.in_flight.clone() {
            if !change.counts() {
                continue;
            }
            let Some(unit) = self.unit_of(&id, &change).filter(|unit| unit.is_eligible()) else {
                continue;
            };
            let Some(wanted) = self.next_content(unit, Some(&change)) else {
                continue;
            };
            let there = match change.kind {
                Kind::Fence => unit
                    .carries()
                    .is_some_and(|(_, carried)| carried == wanted.digest),
                _ => change.digest == Some(wanted.digest),
            };
            if !there && !must_wait(unit, &change, wanted.kind) {
                let change = self.redirect(unit, change, wanted);
                self.memory.in_flight.insert(id, change);
            }
        }
    }

    fn redirect(&mut self, unit: &Unit, change: InFlight, wanted: NextContent) -> InFlight {
        if change.unbegun {
            self.take_place();
        }
        let values_only = match change.revision {
            Some(revision) if revision == wanted.revision => change.values_only,
            _ => unit.is_quiet() && unit.carried_revision() == Some(wanted.revision),
        };
        // A unit that failed at the last good revision was not ready for the target.
        let was_ready = change.was_ready && !(change.kind == Kind::Join && change.failed);
        // Reverted, but its withdrawal was written anyway: no observer counts it until it is written again.
        let left = change.kind == Kind::Fence && unit.being_withdrawn();
        let redirected = change.redirected(wanted.kind, self.issue(), self.now);
        InFlight {
            sent: redirected.sent.filter(|_| !left),
            returned: redirected.returned && !left,
            unbegun: false,
            resumed: change.unbegun || change.resumed && !change.is_written(unit),
            revision: Some(wanted.revision),
            digest: Some(wanted.digest),
            values_only,
            was_ready,
            ..redirected
        }
    }

    /// W5: a change that is not written and will not be applied leaves its slot only after a fence.
    pub(super) fn give_up(&mut self) {
        for (id, change) in self.memory.in_flight.clone() {
            let intent = change.kind.is_assignment() && !change.skipped;
            let Some(unit) = self.unit_of(&id, &change).filter(|unit| unit.is_eligible()) else {
                continue;
            };
            let wanted = match unit.desired {
                Desired::Nothing => false,
                Desired::Unresolved => true,
                Desired::Content { .. } => self.next_content(unit, Some(&change)).is_some(),
            };
            if intent && !wanted && !change.is_written(unit) {
                let token = self.issue();
                self.memory
                    .in_flight
                    .insert(id, change.redirected(Kind::Fence, token, change.since));
            }
        }
    }

    /// Rule 2: starts new changes while there is room. True if any were started.
    pub(super) fn admit(&mut self) -> bool {
        if self.spec.paused {
            return false;
        }
        let mut any = false;
        let kept = self
            .memory
            .in_flight
            .values()
            .filter(|change| !change.skipped)
            .count();
        let room = usize::try_from(self.limit().saturating_sub(self.in_flight_count())).unwrap_or(usize::MAX);
        let room = room.min(MAX_IN_FLIGHT.saturating_sub(kept));
        let mut batch = self.batch();
        let left = batch.map_or(usize::MAX, |open| {
            usize::try_from(open.left).unwrap_or(usize::MAX)
        });
        for (unit, wanted) in self.first(room.min(left)) {
            let change = InFlight {
                revision: Some(wanted.revision),
                digest: Some(wanted.digest),
                was_ready: is_ready(unit),
                values_only: unit.carried_revision() == Some(wanted.revision),
                ..InFlight::new(unit, wanted.kind, self.token, self.now)
            };
            if self.add_in_flight(unit, change) {
                any = true;
                self.issue();
                if let Some(open) = &mut batch {
                    open.left = open.left.saturating_sub(1);
                    self.memory.course.batch = Some(*open);
                }
            }
        }
        any
    }

    /// What a unit without a slot would get; None if it needs nothing or must not be changed. `change` is the in-flight
    /// change of its name.
    pub(super) fn next(&self, unit: &Unit, change: Option<&InFlight>) -> Option<NextContent> {
        let leaves = match change {
            None => false,
            // A previous unit of the same name, which was not observed to be gone, still has the slot.
            Some(change) if change.incarnation != unit.incarnation || change.counts() => return None,
            Some(change) => change.kind.empties(),
        };
        if !unit.is_eligible() || unit.place == StagePosition::Excluded {
            return None;
        }
        let wanted = self.next_content(unit, None)?;
        if waits(unit, wanted.kind) {
            return None;
        }
        let carried = unit.carries().map(|(_, digest)| digest);
        (leaves || carried != Some(wanted.digest)).then_some(wanted)
    }

    /// Some of the units that fill the limit, for the reasons of waiting units.
    pub(super) fn holders(&self, filling: impl Fn(&InFlight) -> bool) -> Arc<[UnitId]> {
        let holders = self.memory.in_flight.iter().filter(|(_, change)| filling(change));
        holders.take(NAMED).map(|(id, _)| id.clone()).collect()
    }
}
