//! Somebody who sees only writes of rows, reports, and who can be reached: E1 and E4 in the words of the page.
//!
//! A unit counts from the write of a row with a new token until its report of that digest and token, succeeded. At each
//! write of a new token to a unit not yet counted, the number counted, without units absent longer than `absence` and with
//! this one, is at most the limit. A row that asks for a withdrawal, or for nothing, ends it: that is beside the limit.
//!
//! Four things no writer can know, and so the sentence is read with them: who came back after the view was taken that a
//! write was decided on is not counted against that write; a unit that came back, or was charged out of its row when
//! the memory was lost or the view did not show its success, may itself be written, on the slot that it took above
//! the limit, until nobody charges it any more;
//! a unit that was counted in that view, and reported since, is written on the slot that it had beside who came back;
//! and so is a unit that has held its slot since before the return, even if its target changed before its row arrived.
//! The limit is the greatest since nothing was under way.
//!
//! Views are numbered: what happens carries the number of the first view that shows it.

use std::collections::{BTreeMap, BTreeSet};

use muster_rollout::{Charge, Class, Content, Millis, Place, Revision, Spec, State, Unit, UnitId};

use super::{Broken, Case, Law, Verdict, amount, limit};

/// What was seen so far.
#[derive(Debug)]
pub struct Observer {
    absence: Millis,
    /// The shortest deadline.
    deadline: Millis,
    /// Units whose last token is written and not reported as succeeded.
    counted: BTreeSet<UnitId>,
    /// Since when a unit is away.
    away: BTreeMap<UnitId, Millis>,
    /// Since when a unit was away that came back while nobody looked: if it leaves again unseen, its absence was one.
    unseen: BTreeMap<UnitId, Millis>,
    /// The newest view that was decided on.
    newest: usize,
    /// Who came back, and in which view that is seen first.
    returned: BTreeMap<UnitId, usize>,
    /// Who reported success last in which view: the first that shows it.
    confirmed: BTreeMap<UnitId, usize>,
    /// The view on which each unit that takes a slot took it.
    slots: BTreeMap<UnitId, usize>,
    /// The greatest limit since nobody was counted and nothing was under way.
    limit: u32,
    /// Who failed on what, or had it long enough to be late, or away.
    failed_on: BTreeMap<Revision, BTreeSet<UnitId>>,
    /// What each unit's row carries, and since when: a new token for the same content is the same row.
    written: BTreeMap<UnitId, (Millis, Content)>,
}

impl Observer {
    /// Nothing was seen yet of a rollout with these deadlines.
    pub fn new(spec: &Spec) -> Self {
        Self {
            absence: spec.deadlines.absence,
            deadline: spec.deadlines.pickup.min(spec.deadlines.progress),
            counted: BTreeSet::new(),
            away: BTreeMap::new(),
            unseen: BTreeMap::new(),
            newest: 0,
            returned: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            slots: BTreeMap::new(),
            limit: 0,
            failed_on: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// E1: a row was written that was decided on this view. `content` is None when the row was dropped.
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

    /// A unit reported about what its row says, and the first view that shows it is this one.
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

    /// It cannot be touched any more.
    pub fn went_away(&mut self, unit: &UnitId, now: Millis) {
        let since = self.unseen.remove(unit).unwrap_or(now);
        self.away.entry(unit.clone()).or_insert(since);
    }

    /// It is back, and the first view that shows it is this one.
    pub fn came_back(&mut self, unit: &UnitId, view: usize, now: Millis) {
        self.note_if_late(unit, now);
        if let Some(since) = self.away.remove(unit) {
            self.unseen.insert(unit.clone(), since);
            self.returned.insert(unit.clone(), view);
        }
    }

    /// The memory was lost, and this unit is charged out of its row: whether it ever was confirmed is known to nobody.
    pub fn is_charged_anew(&mut self, unit: &UnitId, view: usize) {
        self.returned.entry(unit.clone()).or_insert(view);
    }

    /// It is no more; another one may have its name.
    pub fn is_gone(&mut self, unit: &UnitId, now: Millis) {
        self.note_if_late(unit, now);
        self.counted.remove(unit);
        self.written.remove(unit);
        for since in [&mut self.away, &mut self.unseen] {
            since.remove(unit);
        }
        self.returned.remove(unit);
        self.confirmed.remove(unit);
        self.slots.remove(unit);
    }

    /// A memory was written that was decided on this view. E4: nothing is condemned without as many units that failed on it.
    pub fn decided(&mut self, case: &Case<'_>, number: usize) -> Verdict {
        self.judged(case)?;
        self.limit = self.limit.max(limit(case.spec, case.view));
        for unit in case.view.iter().filter(|unit| unit.is_eligible()) {
            self.unseen.remove(&unit.id);
        }
        let charges = &case.decision.memory.charges;
        self.newest = self.newest.max(number);
        self.note_charged_without_a_success(case);
        self.returned
            .retain(|unit, since| *since > number || charges.contains_key(unit));
        let holds = |unit: &UnitId| charges.get(unit).is_some_and(Charge::counts);
        self.slots.retain(|unit, _| holds(unit));
        for unit in charges.keys().filter(|unit| holds(unit)) {
            self.slots.entry(unit.clone()).or_insert(number);
        }
        Ok(())
    }

    /// Nothing is under way: from now on the limit is what it is.
    pub fn calm(&mut self, spec: &Spec, view: &[Unit]) {
        if self.counted.is_empty() {
            self.limit = limit(spec, view);
        }
    }

    /// The view does not show the success of a unit's row, because it is old or its report was lost: the row is charged as not
    /// confirmed, beside the limit, as when the memory was lost.
    fn note_charged_without_a_success(&mut self, case: &Case<'_>) {
        let charges = &case.decision.memory.charges;
        let anew =
            |unit: &&Unit| charges.contains_key(&unit.id) && !case.before.charges.contains_key(&unit.id);
        for unit in case.view.iter().filter(anew) {
            if !self.counted.contains(&unit.id) && !shows_success(unit) {
                self.is_charged_anew(&unit.id, self.newest + 1);
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
            let included = |unit: &&Unit| unit.selected() && unit.place != Place::Excluded;
            let selected = case.view.iter().filter(included).count();
            let tolerated = amount(case.spec.max_failed, u32::try_from(selected).unwrap_or(u32::MAX));
            if failed <= tolerated as usize {
                let what = format!("{revision:?} is condemned by {failed} units, and {tolerated} may fail");
                return Err(Broken::new(Law::E4, what));
            }
        }
        Ok(())
    }

    /// Who has had a row for as long as the shortest deadline may be late at it; who was away for long may count as failed.
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

/// Nothing is carried, or what the row says is reported as succeeded.
fn shows_success(unit: &Unit) -> bool {
    let carries = unit
        .assigned
        .is_some_and(|row| matches!(row.content, Content::Carries { .. }));
    !carries || unit.state_at_row() == Some(&State::Succeeded)
}
