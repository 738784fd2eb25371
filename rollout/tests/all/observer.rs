//! Somebody who sees only writes of rows, reports, and who can be reached: E1 and E4 in the words of the page.
//!
//! A unit counts from the write of a row with a new token until its report of that digest and token, succeeded. At each
//! write of a new token to a unit not yet counted, the number counted, without units absent longer than `absence` and with
//! this one, is at most the limit. A row that asks for a withdrawal, or for nothing, ends it: that is beside the limit.
//!
//! Three things no writer can know, and so the sentence is read with them: who came back after the view was taken that a
//! write was decided on is not counted against that write; a unit that came back, or was charged out of its row when
//! the memory was lost, may itself be written, on the slot that it took above the limit, until nobody charges it any more;
//! and a unit that was counted in that view, and reported since, is written on the slot that it had beside who came back.
//! The limit is the greatest since nothing was under way.

use std::collections::{BTreeMap, BTreeSet};

use muster_rollout::{Content, Decision, Memory, Millis, State, Unit};

use crate::world::label;

pub type Verdict = Result<(), String>;

pub struct Observer {
    absence: Millis,
    max_failed: usize,
    /// Units whose last token is written and not reported as succeeded.
    counted: BTreeSet<String>,
    /// Since when a unit is away.
    away: BTreeMap<String, Millis>,
    /// Since when a unit was away that came back while nobody looked: if it leaves again unseen, its absence was one.
    unseen: BTreeMap<String, Millis>,
    /// Who came back, and in which view that is seen first.
    returned: BTreeMap<String, usize>,
    /// Who reported success last in which view: the first that shows it.
    confirmed: BTreeMap<String, usize>,
    /// The greatest limit since nobody was counted and nothing was under way.
    limit: u32,
    /// Who failed on what, or had it long enough to be late.
    failed_on: BTreeMap<String, BTreeSet<String>>,
    written: BTreeMap<String, (Millis, String)>,
}

impl Observer {
    pub fn new(absence: Millis, max_failed: usize) -> Self {
        Self {
            absence,
            max_failed,
            counted: BTreeSet::new(),
            away: BTreeMap::new(),
            unseen: BTreeMap::new(),
            returned: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            limit: 0,
            failed_on: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// E1: a row was written that was decided on this view.
    pub fn wrote(&mut self, name: &str, content: Option<Content>, view: usize, now: Millis) -> Verdict {
        let Some(Content::Carries { revision, .. }) = content else {
            self.counted.remove(name);
            self.written.remove(name);
            return Ok(());
        };
        self.written
            .insert(name.into(), (now, revision.map(label).unwrap_or_default()));
        let new = self.counted.insert(name.into());
        let had_a_slot = self.confirmed.get(name).is_some_and(|at| *at > view);
        let here = self.counted.iter().filter(|other| {
            let beside = |at: &usize| *at > view || had_a_slot;
            let known = *other == name || !self.returned.get(*other).is_some_and(beside);
            known && !self.is_long_absent(other, now)
        });
        let here = here.count();
        let free = self.is_long_absent(name, now) || self.returned.contains_key(name);
        if new && !free && here > self.limit as usize {
            return Err(format!(
                "E1: {:?} are counted when {name} is written, the limit is {}",
                self.counted, self.limit
            ));
        }
        Ok(())
    }

    /// A unit reported about what its row says, and the first view that shows it is this one.
    pub fn reported(&mut self, name: &str, revision: &str, state: &State, view: usize) {
        match state {
            State::Succeeded | State::Withdrawn => {
                if self.counted.remove(name) {
                    self.confirmed.insert(name.into(), view);
                }
            }
            State::Failed { .. } => drop(
                self.failed_on
                    .entry(revision.into())
                    .or_default()
                    .insert(name.into()),
            ),
            State::Updating | State::Unknown => {}
        }
    }

    pub fn went_away(&mut self, name: &str, now: Millis) {
        let since = self.unseen.remove(name).unwrap_or(now);
        self.away.entry(name.into()).or_insert(since);
    }

    /// It is back, and the first view that shows it is this one.
    pub fn came_back(&mut self, name: &str, view: usize) {
        if let Some(since) = self.away.remove(name) {
            self.unseen.insert(name.into(), since);
            self.returned.insert(name.into(), view);
        }
    }

    /// The memory was lost, and this unit is charged out of its row: whether it ever was confirmed is known to nobody.
    pub fn is_charged_anew(&mut self, name: &str, view: usize) {
        self.returned.entry(name.into()).or_insert(view);
    }

    pub fn is_gone(&mut self, name: &str) {
        self.counted.remove(name);
        self.written.remove(name);
        for since in [&mut self.away, &mut self.unseen] {
            since.remove(name);
        }
        self.returned.remove(name);
        self.confirmed.remove(name);
    }

    /// A memory was written that was decided on this view.
    pub fn decided(&mut self, decision: &Decision, view: &[Unit], number: usize) {
        self.limit = self.limit.max(decision.summary.limit);
        for unit in view.iter().filter(|unit| unit.is_eligible()) {
            self.unseen.remove(unit.id.as_str());
        }
        let charged = |name: &String| decision.memory.charges.contains_key(&name.as_str().into());
        self.returned
            .retain(|name, since| *since > number || charged(name));
    }

    /// Nothing is under way: from now on the limit is what it is.
    pub fn calm(&mut self, limit: u32) {
        if self.counted.is_empty() {
            self.limit = limit;
        }
    }

    /// Who has had a row for as long as the shortest deadline may be late at it.
    pub fn time_passed(&mut self, now: Millis, deadline: Millis) {
        for (name, (since, revision)) in &self.written {
            if now.since(*since) >= deadline {
                self.failed_on
                    .entry(revision.clone())
                    .or_default()
                    .insert(name.clone());
            }
        }
    }

    /// E4: nothing is condemned without as many units that failed on it.
    pub fn judged(&self, before: &Memory, after: &Memory) -> Verdict {
        for revision in after.bad.keys().filter(|revision| !before.is_bad(**revision)) {
            let failed = self.failed_on.get(&label(*revision)).map_or(0, BTreeSet::len);
            if failed <= self.max_failed {
                return Err(format!("E4: {} is condemned by {failed}", label(*revision)));
            }
        }
        Ok(())
    }

    fn is_long_absent(&self, name: &str, now: Millis) -> bool {
        self.away
            .get(name)
            .is_some_and(|since| now.since(*since) >= self.absence)
    }
}
