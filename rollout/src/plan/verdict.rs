//! Rules 6, 7: failures are counted over distinct units that were ready; too many condemn the target, and `onFailure`
//! applies.

use std::sync::Arc;

use super::Pass;
use crate::{
    Evidence, InFlight, Kind, MAX_BAD, MAX_MARKS, OnFailure, Revision, Run, RunState, Step, Unit, Verdict,
};

impl Pass<'_> {
    /// Counts the failure of a unit in flight against the target, if it says anything about it (rules 3 and 6). True if
    /// it does.
    pub(super) fn mark(&mut self, unit: &Unit, change: &InFlight, message: Arc<str>) -> bool {
        let blames = self
            .open_run()
            .is_some_and(|run| change.revision == Some(run.target));
        let counted = change.marked || self.memory.marks.contains_key(&unit.id);
        if !blames || !change.was_ready || change.values_only || counted {
            return false;
        }
        let kept = usize::try_from(self.max_failed())
            .unwrap_or(MAX_MARKS)
            .saturating_add(1)
            .min(MAX_MARKS);
        if self.memory.marks.len() < kept {
            self.memory.marks.insert(unit.id.clone(), self.now);
        } else if change.kind == Kind::Assign {
            // Only for a first change is it known that its unit was not counted before.
            self.memory.marks_beyond = self.memory.marks_beyond.saturating_add(1);
        }
        self.last_mark = Some((unit.id.clone(), message));
        true
    }

    pub(super) fn judge(&mut self) {
        let Some(run) = self.open_run() else { return };
        let marks = u32::try_from(self.memory.marks.len()).unwrap_or(u32::MAX);
        if marks.saturating_add(self.memory.marks_beyond) <= self.max_failed() {
            return;
        }
        let Some(evidence) = self.evidence() else { return };
        match self.spec.on_failure {
            OnFailure::Halt | OnFailure::Revert => {
                self.memory.run = Some(Run {
                    state: RunState::Halted,
                    ..run
                });
                self.condemn(run.target, evidence);
            }
            OnFailure::Continue if self.memory.course.recorded.is_some() => {}
            OnFailure::Continue => {
                self.memory.course.recorded = Some(evidence.clone());
                self.conclude_bad(run.target, evidence);
            }
        }
    }

    fn condemn(&mut self, revision: Revision, evidence: Evidence) {
        let memory = &mut self.memory;
        memory.bad.insert(revision, evidence.clone());
        if memory.bad.len() > MAX_BAD {
            let others = memory.bad.iter().filter(|(bad, _)| **bad != revision);
            let oldest = others
                .min_by_key(|(bad, evidence)| (evidence.at, **bad))
                .map(|(bad, _)| *bad);
            if let Some(oldest) = oldest {
                memory.bad.remove(&oldest);
            }
        }
        if memory.last_good == Some(revision) {
            memory.last_good = None;
        }
        self.conclude_bad(revision, evidence);
    }

    fn conclude_bad(&mut self, revision: Revision, evidence: Evidence) {
        self.verdicts.push(Step::Conclude {
            revision,
            verdict: Verdict::Bad,
            evidence: Some(evidence),
        });
    }

    /// The unit that exceeded the tolerance: the one marked now, or the last one if the setting was lowered below the
    /// number of marks.
    fn evidence(&self) -> Option<Evidence> {
        if let Some((unit, message)) = &self.last_mark {
            return Some(Evidence::new(unit.clone(), message, self.now));
        }
        let (unit, at) = self.memory.marks.iter().max_by_key(|(_, at)| **at)?;
        Some(Evidence::new(
            unit.clone(),
            "failed before fewer failures were allowed",
            *at,
        ))
    }
}
