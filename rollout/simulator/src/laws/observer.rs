//! An observer that sees only writes of assignments, reports, and which units are reachable: checks E1 and E4 as
//! docs/engine.md states them.
//!
//! A unit counts from the write of an assignment with a new token until its report of success for that digest and
//! token. At each write of a new token to a unit that does not count yet, the number of counted units, without those
//! absent longer than `absence` and including this one, is at most the limit. An assignment that is a withdrawal or
//! empty ends this, as it is outside of the limit.
//!
//! Four facts are unknown to any writer, so the rule has these exceptions: a unit that returned after the view of a
//! decision was read does not count against its writes; a unit that returned, or was adopted because the memory was
//! lost or the view did not show its success, may itself be written, on the slot that it took above the limit, until it
//! is no longer in flight; a unit that was counted in that view, and has reported since, is written on its own slot
//! beside units that returned; and so is a unit that has held its slot since before the return, even if its target
//! changed before its assignment was written. The limit is the greatest one since no change was pending.
//!
//! Views are numbered: an event has the number of the first view that shows it.

use std::collections::{BTreeMap, BTreeSet};

use muster_rollout::{Class, Content, InFlight, Millis, Revision, Spec, StagePosition, State, Unit, UnitId};

use super::{Broken, Case, Law, Verdict, amount, limit_in_units};

/// The observations so far.
#[derive(Debug)]
pub struct Observer {
    absence: Millis,
    /// The shortest deadline.
    deadline: Millis,
    /// Units whose last token is written and not reported as succeeded.
    counted: BTreeSet<UnitId>,
    /// Since when a unit has been absent.
    away: BTreeMap<UnitId, Millis>,
    /// Since when a unit was absent that returned unobserved: if it leaves again before that is observed, it is one
    /// absence.
    unobserved: BTreeMap<UnitId, Millis>,
    /// The newest view that was used for a decision.
    newest: usize,
    /// Units that returned, with the first view that shows it.
    returned: BTreeMap<UnitId, usize>,
    /// The last report of success of each unit, with the first view that shows it.
    confirmed: BTreeMap<UnitId, usize>,
    /// The view in which each unit that takes a slot took it.
    slots: BTreeMap<UnitId, usize>,
    /// The greatest limit since no unit was counted and no change was pending.
    limit: u32,
    /// Units that failed at each revision, had it long enough to be overdue, or were absent.
    failed_on: BTreeMap<Revision, BTreeSet<UnitId>>,
    /// The content of each unit's assignment, and since when: a new token for the same content does not change it.
    written: BTreeMap<UnitId, (Millis, Content)>,
}

impl Observer {
    /// A new observer of a rollout with these deadlines.
    pub fn new(spec: &Spec) -> Self {
        Self {
            absence: spec.deadlines.absence,
            deadline: spec.deadlines.pickup.min(spec.deadlines.progress),
            counted: BTreeSet::new(),
            away: BTreeMap::new(),
            unobserved: BTreeMap::new(),
            newest: 0,
            returned: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            slots: BTreeMap::new(),
            limit: 0,
            failed_on: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// E1: an assignment that was decided on this view was written. `content` is None if the assignment was removed.
    pub fn wrote(&mut self, unit: &UnitId, content: Option<Content>, view: usize, now: Millis) -> Verdict {
        self.note_if_late(unit, now);
        let Some(content @ Content::Carries { .. }) = content else {
            self.counted.remove(unit);
            self.written.remove(unit);
            return Ok(());
        };
        if self
            .written
            .get(unit)
            .is_none_or(|(_, before)| *before != content)
        {
            self.written.insert(unit.clone(), (now, content));
        }
        let new = self.counted.insert(unit.clone());
        let had_a_slot = self.confirmed.get(unit).is_some_and(|at| *at > view);
        let here = self.counted.iter().filter(|other| {
            let held = self.slots.get(unit);
            let beside = |at: &usize| *at > view || had_a_slot || held.is_some_and(|since| since < at);
            let known = *other == unit || !self.returned.get(*other).is_some_and(beside);
            known && !self.is_long_absent(other, now)
        });
        let here = here.count();
        let free = self.is_long_absent(unit, now) || self.returned.contains_key(unit);
        if new && !free && here > self.limit as usize {
            let what = format!(
                "{:?} are counted when {unit} is written, the limit is {}",
                self.counted, self.limit
            );
            return Err(Broken::new(Law::E1, what));
        }
        Ok(())
    }

    /// A unit reported about its assignment; this is the first view that shows it.
    pub fn reported(&mut self, unit: &UnitId, revision: Option<Revision>, state: &State, view: usize) {
        match state {
            State::Succeeded | State::Withdrawn => {
                if self.counted.remove(unit) {
                    self.confirmed.insert(unit.clone(), view);
                }
            }
            State::Failed {
                class: Class::Revision | Class::Unit,
                ..
            } => self.failed(unit, revision),
            State::Failed {
                class: Class::Infra, ..
            }
            | State::Updating
            | State::Progressing(_)
            | State::Unknown => {}
        }
    }

    /// The unit is no longer eligible.
    pub fn went_away(&mut self, unit: &UnitId, now: Millis) {
        let since = self.unobserved.remove(unit).unwrap_or(now);
        self.away.entry(unit.clone()).or_insert(since);
    }

    /// The unit has returned; this is the first view that shows it.
    pub fn came_back(&mut self, unit: &UnitId, view: usize, now: Millis) {
        self.note_if_late(unit, now);
        if let Some(since) = self.away.remove(unit) {
            self.unobserved.insert(unit.clone(), since);
            self.returned.insert(unit.clone(), view);
        }
    }

    /// The memory was lost, and this unit was adopted for its assignment: it is unknown whether it was ever confirmed.
    pub fn is_adopted(&mut self, unit: &UnitId, view: usize) {
        self.returned.entry(unit.clone()).or_insert(view);
    }

    /// The unit is gone; another one may have its name.
    pub fn is_gone(&mut self, unit: &UnitId, now: Millis) {
        self.note_if_late(unit, now);
        self.counted.remove(unit);
        self.written.remove(unit);
        for since in [&mut self.away, &mut self.unobserved] {
            since.remove(unit);
        }
        self.returned.remove(unit);
        self.confirmed.remove(unit);
        self.slots.remove(unit);
    }

    /// A memory that was decided on this view was written. E4: a revision is condemned only if enough units failed at
    /// it.
    pub fn decided(&mut self, case: &Case<'_>, number: usize) -> Verdict {
        self.judged(case)?;
        self.limit = self.limit.max(limit_in_units(case.spec, case.view));
        for unit in case.view.iter().filter(|unit| unit.is_eligible()) {
            self.unobserved.remove(&unit.id);
        }
        let changes = &case.decision.memory.in_flight;
        self.newest = self.newest.max(number);
        self.record_adopted_without_success(case);
        self.returned
            .retain(|unit, since| *since > number || changes.contains_key(unit));
        let holds = |unit: &UnitId| changes.get(unit).is_some_and(InFlight::counts);
        self.slots.retain(|unit, _| holds(unit));
        for unit in changes.keys().filter(|unit| holds(unit)) {
            self.slots.entry(unit.clone()).or_insert(number);
        }
        Ok(())
    }

    /// No change is pending: the limit becomes the current one.
    pub fn calm(&mut self, spec: &Spec, view: &[Unit]) {
        if self.counted.is_empty() {
            self.limit = limit_in_units(spec, view);
        }
    }

    /// The view does not show the success of a unit's assignment, because it is old or the report was lost: the unit is
    /// adopted as unconfirmed, above the limit, as after a lost memory.
    fn record_adopted_without_success(&mut self, case: &Case<'_>) {
        let changes = &case.decision.memory.in_flight;
        let is_new =
            |unit: &&Unit| changes.contains_key(&unit.id) && !case.before.in_flight.contains_key(&unit.id);
        for unit in case.view.iter().filter(is_new) {
            if !self.counted.contains(&unit.id) && !shows_success(unit) {
                self.is_adopted(&unit.id, self.newest + 1);
            }
        }
    }

    fn judged(&mut self, case: &Case<'_>) -> Verdict {
        let bad = case.decision.memory.bad.keys();
        for revision in bad.filter(|revision| !case.before.is_bad(**revision)) {
            let units: Vec<UnitId> = self.written.keys().cloned().collect();
            for unit in &units {
                self.note_if_late(unit, case.now);
            }
            let failed = self.failed_on.get(revision).map_or(0, BTreeSet::len);
            let included = |unit: &&Unit| unit.selected() && unit.place != StagePosition::Excluded;
            let selected = case.view.iter().filter(included).count();
            let tolerated = amount(case.spec.max_failed, u32::try_from(selected).unwrap_or(u32::MAX));
            if failed <= tolerated as usize {
                let what = format!("{revision:?} is condemned by {failed} units, and {tolerated} may fail");
                return Err(Broken::new(Law::E4, what));
            }
        }
        Ok(())
    }

    /// A unit that has had an assignment for the shortest deadline may be overdue; a unit that was absent for long may
    /// count as failed.
    fn note_if_late(&mut self, unit: &UnitId, now: Millis) {
        if let Some((since, Content::Carries { revision, .. })) = self.written.get(unit)
            && (now.since(*since) >= self.deadline || self.is_long_absent(unit, now))
        {
            self.failed(unit, *revision);
        }
    }

    fn failed(&mut self, unit: &UnitId, revision: Option<Revision>) {
        if let Some(revision) = revision {
            self.failed_on.entry(revision).or_default().insert(unit.clone());
        }
    }

    fn is_long_absent(&self, unit: &UnitId, now: Millis) -> bool {
        self.away
            .get(unit)
            .is_some_and(|since| now.since(*since) >= self.absence)
    }
}

/// The unit has no content, or reports success at its assignment.
fn shows_success(unit: &Unit) -> bool {
    let carries = unit
        .assigned
        .is_some_and(|row| matches!(row.content, Content::Carries { .. }));
    !carries || unit.state_at_assignment() == Some(&State::Succeeded)
}
