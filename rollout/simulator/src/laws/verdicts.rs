//! Remembers all verdicts so far: checks E3 and E5.

use std::collections::BTreeSet;

use muster_rollout::{ControlCommand, Desired, MAX_BAD, Revision, Step};

use super::{Broken, Case, Law, Verdict};

/// The verdicts so far.
#[derive(Debug, Default)]
pub struct Verdicts {
    good: BTreeSet<Revision>,
    /// Known to be bad, until a retry.
    bad: BTreeSet<Revision>,
}

impl Verdicts {
    /// A decision was written.
    pub fn decided(&mut self, case: &Case<'_>) -> Verdict {
        self.forget_what_is_tried_again(case);
        for step in &case.decision.steps {
            self.follow(case, step)?;
        }
        Ok(())
    }

    fn forget_what_is_tried_again(&mut self, case: &Case<'_>) {
        for control in &case.spec.controls {
            if let ControlCommand::Retry(revision) = &control.says
                && case.decision.taken.contains(&(control.id, true))
            {
                self.bad.remove(revision);
            }
        }
    }

    fn follow(&mut self, case: &Case<'_>, step: &Step) -> Verdict {
        match step {
            Step::Conclude {
                revision,
                verdict: muster_rollout::Verdict::Good,
                ..
            } => {
                self.good.insert(*revision);
            }
            // With `Continue` the verdict is only recorded.
            Step::Conclude { revision, .. } if case.decision.memory.is_bad(*revision) => {
                self.bad.insert(*revision);
            }
            Step::Assign { unit, revision, .. } => {
                // Only this number of verdicts is remembered.
                if self.bad.len() <= MAX_BAD && self.bad.contains(revision) {
                    return Err(Broken::new(Law::E3, format!("{step:?}, which was condemned")));
                }
                let desired = case.unit(unit).map(|unit| unit.desired);
                let is_desired =
                    matches!(desired, Some(Desired::Content { revision: it, .. }) if it == *revision);
                if !is_desired && !self.good.contains(revision) {
                    return Err(Broken::new(Law::E5, format!("{step:?}, which was never good")));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
