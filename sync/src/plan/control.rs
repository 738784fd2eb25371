//! Manual controls of a run: abort it, retry or skip one of its steps.

use muster_api::{
    assemblage::FailureClass,
    plan::{RunProgress, RunState, StepProgress},
};

use super::StepId;

/// A control of a run. It names the run, so that a late control does not affect another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Ends the run as failed.
    Abort,
    /// Restarts a failed step, and the run continues.
    Retry(StepId),
    /// Counts a step as complete, without evidence.
    Skip(StepId),
}

/// Why a control has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The control is for another run.
    #[error("it is for run {wanted}, but the current run is {current}")]
    OtherRun {
        /// UID of the run that the control names.
        wanted: String,
        /// UID of the current run.
        current: String,
    },
    /// The run has ended already.
    #[error("run {uid} of plan {plan} is {status} already")]
    Ended {
        /// Name of the plan.
        plan: String,
        /// UID of the run.
        uid: String,
        /// The final state.
        status: RunState,
    },
    /// The plan has no such step.
    #[error("plan {plan} has no step {step}: it has {}", known.join(", "))]
    NoStep {
        /// Name of the plan.
        plan: String,
        /// The requested step.
        step: StepId,
        /// The steps of the plan.
        known: Vec<String>,
    },
    /// The control does not apply to a step in this state.
    #[error("step {step} is {status}: {needed}")]
    NotNow {
        /// The step.
        step: StepId,
        /// State of the step.
        status: RunState,
        /// The required state.
        needed: &'static str,
    },
}

/// Applies a control to the run `uid`; `reason` says why the user set it.
pub fn control(
    mut progress: RunProgress,
    uid: &str,
    control: &Control,
    reason: &str,
) -> Result<RunProgress, ControlError> {
    if progress.uid != uid {
        return Err(ControlError::OtherRun {
            wanted: uid.to_owned(),
            current: progress.uid,
        });
    }
    match control {
        Control::Abort => abort(&mut progress, reason)?,
        Control::Retry(id) => {
            let step = step(&mut progress, id)?;
            if !matches!(step.status, RunState::FatalError | RunState::Error) {
                return Err(not_now(id, step.status, "only a failed step can be retried"));
            }
            *step = StepProgress {
                name: step.name.clone(),
                status: RunState::Pending,
                attempt: step.attempt.saturating_add(1),
                ..StepProgress::default()
            };
            go_on(&mut progress, id);
        }
        Control::Skip(id) => {
            let step = step(&mut progress, id)?;
            if step.status == RunState::Complete {
                return Err(not_now(id, step.status, "there is nothing to skip"));
            }
            step.status = RunState::Complete;
            step.assumed = true;
            step.class = None;
            step.message = Some(format!("skipped: {reason}"));
            go_on(&mut progress, id);
        }
    }
    Ok(progress)
}

/// Fails the run, and its first unfinished step.
fn abort(progress: &mut RunProgress, reason: &str) -> Result<(), ControlError> {
    if progress.status.is_terminal() {
        return Err(ControlError::Ended {
            plan: progress.plan.clone(),
            uid: progress.uid.clone(),
            status: progress.status,
        });
    }
    progress.status = RunState::FatalError;
    let open = progress.phases.iter_mut().find_map(|phase| {
        let step = phase.steps.iter_mut().find(|step| !step.status.is_terminal())?;
        Some((&mut phase.status, step))
    });
    if let Some((phase, step)) = open {
        *phase = RunState::FatalError;
        step.status = RunState::FatalError;
        step.class = Some(FailureClass::Unit);
        step.message = Some(format!("aborted: {reason}"));
    }
    Ok(())
}

fn step<'a>(progress: &'a mut RunProgress, id: &StepId) -> Result<&'a mut StepProgress, ControlError> {
    let plan = progress.plan.clone();
    let known = progress
        .phases
        .iter()
        .flat_map(|phase| {
            phase
                .steps
                .iter()
                .map(|step| StepId::new(&phase.name, &step.name).to_string())
        })
        .collect();
    progress
        .phases
        .iter_mut()
        .filter(|phase| phase.name == id.phase)
        .flat_map(|phase| &mut phase.steps)
        .find(|step| step.name == id.step)
        .ok_or_else(|| ControlError::NoStep {
            plan,
            step: id.clone(),
            known,
        })
}

/// Resumes the run at this step.
fn go_on(progress: &mut RunProgress, id: &StepId) {
    progress.status = RunState::InProgress;
    for phase in progress.phases.iter_mut().filter(|phase| phase.name == id.phase) {
        phase.status = RunState::InProgress;
    }
}

fn not_now(step: &StepId, status: RunState, needed: &'static str) -> ControlError {
    ControlError::NotNow {
        step: step.clone(),
        status,
        needed,
    }
}
