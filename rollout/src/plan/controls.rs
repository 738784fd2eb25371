//! Rule 15: a control takes effect once, when it is first observed, and not again while it remains in the spec.

use std::collections::BTreeSet;

use super::Pass;
use crate::{
    Control, ControlCommand, InFlight, Kind, MAX_CONTROLS, Revision, Run, RunState, StageId, UnitId,
};

impl Pass<'_> {
    pub(super) fn take_controls(&mut self) {
        let controls = self.spec.controls.iter().take(MAX_CONTROLS);
        let standing: BTreeSet<u64> = controls.clone().map(|control| control.id).collect();
        self.memory.taken.retain(|id| standing.contains(id));
        for Control { id, says: command } in controls {
            if !self.memory.taken.insert(*id) {
                continue;
            }
            let approves = matches!(command, ControlCommand::Approve(..) | ControlCommand::Promote(..));
            if self.memory.rebuilt && !approves {
                continue; // It may have been taken before the memory was lost, and things have gone on since.
            }
            let applied = self.memory.heeds(command) && self.knows(command);
            if applied {
                self.heed(command);
            }
            self.taken.push((*id, applied));
        }
    }

    /// Whether the stage that the control names, if any, exists in this spec.
    fn knows(&self, command: &ControlCommand) -> bool {
        match command {
            ControlCommand::Abort(_) | ControlCommand::Retry(_) => true,
            ControlCommand::Approve(_, stage) | ControlCommand::Promote(_, stage) => {
                self.spec.stages.iter().any(|known| known.name == *stage)
            }
        }
    }

    fn heed(&mut self, command: &ControlCommand) {
        let course = &mut self.memory.course;
        match command {
            ControlCommand::Abort(_) => self.abort(),
            ControlCommand::Retry(revision) => self.retry(*revision),
            ControlCommand::Approve(_, stage) => {
                course.approved.insert(StageId::of(stage));
            }
            ControlCommand::Promote(_, stage) => {
                course.approved.insert(StageId::of(stage));
                course.promoted.insert(StageId::of(stage));
            }
        }
    }

    fn abort(&mut self) {
        if let Some(run) = &mut self.memory.run {
            run.state = RunState::Aborted;
        }
    }

    /// Rule 7: forgets the verdict. If the run ended with it, another one starts, without failures.
    fn retry(&mut self, revision: Revision) {
        self.memory.bad.remove(&revision);
        let ended = |run: &Run| run.target == revision && run.is_refused();
        let Some(run) = self.memory.run.filter(ended) else {
            return;
        };
        let changes = self.memory.in_flight.iter();
        let failed = changes.filter(|(_, change)| change.failed && change.revision == Some(revision));
        let failed: Vec<(UnitId, InFlight)> = failed.map(|(id, change)| (id.clone(), *change)).collect();
        self.begin(run.target, RunState::Open);
        for (id, change) in failed {
            // Earlier reports no longer count, as they are about another token.
            let again = InFlight {
                revision: change.revision,
                digest: change.digest,
                marked: false,
                ..change.redirected(Kind::Assign, self.issue(), self.now)
            };
            self.memory.in_flight.insert(id, again);
        }
    }
}
