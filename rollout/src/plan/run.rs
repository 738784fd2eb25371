//! Rule 9: a new target replaces the run. Units in flight stay in flight, and are retargeted on their slots.

use super::Pass;
use crate::{Course, Revision, Run, RunState};

impl Pass<'_> {
    pub(super) fn follow_target(&mut self) {
        let Some(target) = self.spec.target else { return };
        let last = self.memory.run;
        if last.is_some_and(|run| run.target == target) {
            return;
        }
        let state = if self.memory.is_bad(target) {
            RunState::KnownBad
        } else if last.is_none() && self.memory.last_good == Some(target) {
            RunState::Good
        } else {
            RunState::Open
        };
        self.begin(target, state);
    }

    /// Starts another run: no failures, and no passed stages.
    pub(super) fn begin(&mut self, target: Revision, state: RunState) {
        let last = self.memory.run;
        self.memory.run = Some(Run {
            id: last.map_or(1, |run| run.id.saturating_add(1)),
            target,
            from: self.memory.last_good,
            started: self.now,
            state,
        });
        self.memory.course = Course::default();
        self.memory.marks.clear();
        self.memory.marks_beyond = 0;
        for change in self.memory.in_flight.values_mut() {
            (change.failed, change.marked) = (false, false);
        }
    }

    /// The run without a verdict.
    pub(super) fn open_run(&self) -> Option<Run> {
        self.memory.run.filter(|run| run.state == RunState::Open)
    }
}
