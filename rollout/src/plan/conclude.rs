//! Rule 8: a target is good when every eligible selected unit is confirmed at it and every stage is passed. A fleet
//! that is empty or has only pinned units proves nothing.

use super::Pass;
use crate::{Run, RunState, Step, Unit, Verdict};

impl Pass<'_> {
    pub(super) fn conclude(&mut self) {
        let Some(run) = self
            .open_run()
            .filter(|run| self.spec.complete && self.spec.target == Some(run.target))
        else {
            return;
        };
        let mut needed = self.units.iter().filter(|unit| unit.is_needed());
        let proves = |unit: &&&Unit| unit.is_needed() && unit.is_eligible() && !unit.pinned;
        let proof = self.units.iter().find(proves);
        if proof.is_none() || !needed.all(|unit| self.is_confirmed(unit)) || self.open_stage().is_some() {
            return;
        }
        self.memory.run = Some(Run {
            state: RunState::Good,
            ..run
        });
        self.memory.last_good = Some(run.target);
        self.memory.marks.clear();
        self.memory.marks_beyond = 0;
        let verdict = Verdict::Good;
        self.verdicts.push(Step::Conclude {
            revision: run.target,
            verdict,
            evidence: None,
        });
    }

    /// Whether the unit is not in flight and has its desired content.
    pub(super) fn is_confirmed(&self, unit: &Unit) -> bool {
        unit.has_desired() && self.in_flight_of(unit).is_none()
    }
}
