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
            let applied = self.memory.heeds(says) && self.knows(says);
            if applied {
                self.heed(says);
            }
            self.taken.push((*id, applied));
        }
    }

    /// The stage, if it is about one, is one of this spec.
    fn knows(&self, says: &Says) -> bool {
        match says {
            Says::Abort(_) | Says::Retry(_) => true,
            Says::Approve(_, stage) | Says::Promote(_, stage) => {
                self.spec.stages.iter().any(|known| known.name == *stage)
            }
        }
    }

    fn heed(&mut self, says: &Says) {
        let course = &mut self.memory.course;
        match says {
            Says::Abort(_) => self.abort(),
            Says::Retry(revision) => self.retry(*revision),
            Says::Approve(_, stage) => {
                course.approved.insert(StageId::of(stage));
            }
            Says::Promote(_, stage) => {
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

    /// Rule 7: what is known is forgotten. If that ended the run, another one begins, in which nobody has failed yet.
    fn retry(&mut self, revision: Revision) {
        self.memory.bad.remove(&revision);
        let ended = |run: &Run| run.target == revision && run.is_refused();
        let Some(run) = self.memory.run.filter(ended) else {
            return;
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
    }
}
