//! Rule 15: what somebody said once is taken when it is first seen, and not again while it stands.

use std::collections::BTreeSet;

use super::Pass;
use crate::{Charge, Control, Kind, MAX_CONTROLS, Revision, Run, RunState, Says, StageId, UnitId};

impl Pass<'_> {
    pub(super) fn take_controls(&mut self) {
        let controls = self.spec.controls.iter().take(MAX_CONTROLS);
        let standing: BTreeSet<u64> = controls.clone().map(|control| control.id).collect();
        self.memory.taken.retain(|id| standing.contains(id));
        for Control { id, says } in controls {
            if !self.memory.taken.insert(*id) {
                continue;
            }
            let approves = matches!(says, Says::Approve(..) | Says::Promote(..));
            if self.memory.rebuilt && !approves {
                continue; // It may have been taken before the memory was lost, and things have gone on since.
            }
            let applied = match says {
                Says::Abort(revision) => self.abort(*revision),
                Says::Retry(revision) => self.retry(*revision),
                Says::Approve(revision, stage) => self.approve(*revision, stage, false),
                Says::Promote(revision, stage) => self.approve(*revision, stage, true),
            };
            self.taken.push((*id, applied));
        }
    }

    fn abort(&mut self, revision: Revision) -> bool {
        let Some(run) = self.open_run().filter(|run| run.target == revision) else {
            return false;
        };
        self.memory.run = Some(Run {
            state: RunState::Aborted,
            ..run
        });
        true
    }

    /// Rule 7: what is known is forgotten. If that ended the run, another one begins, in which nobody has failed yet.
    fn retry(&mut self, revision: Revision) -> bool {
        let known = self.memory.bad.remove(&revision).is_some();
        let ended = |run: &Run| {
            let over = matches!(
                run.state,
                RunState::Halted | RunState::KnownBad | RunState::Aborted
            );
            run.target == revision && over
        };
        let Some(run) = self.memory.run.filter(ended) else {
            return known;
        };
        let charges = self.memory.charges.iter();
        let failed = charges.filter(|(_, charge)| charge.failed && charge.revision == Some(revision));
        let failed: Vec<(UnitId, Charge)> = failed.map(|(id, charge)| (id.clone(), *charge)).collect();
        self.begin(run.target, RunState::Open);
        for (id, charge) in failed {
            // What it said so far counts no more, as that was about another token.
            let again = Charge {
                revision: charge.revision,
                digest: charge.digest,
                marked: false,
                ..charge.redirected(Kind::Assign, self.issue(), self.now)
            };
            self.memory.charges.insert(id, again);
        }
        true
    }

    fn approve(&mut self, revision: Revision, stage: &str, promote: bool) -> bool {
        let known = self.spec.stages.iter().any(|known| *known.name == *stage);
        let runs = self.open_run().is_some_and(|run| run.target == revision);
        let stage = StageId::of(stage);
        let course = &mut self.memory.course;
        if !known || !runs || course.passed.contains(&stage) {
            return false;
        }
        course.approved.insert(stage);
        if promote {
            course.promoted.insert(stage);
        }
        true
    }
}
