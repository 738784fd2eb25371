//! What is done to a run by hand: it is aborted, a step of it is tried again or skipped.

use muster_api::{
    assemblage::FailureClass,
    plan::{RunProgress, RunState, StepProgress},
};

use super::StepId;

/// A control: it is for one run, so that one that comes late changes no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The run ends as failed.
    Abort,
    /// A step that failed begins anew, and the run goes on.
    Retry(StepId),
    /// A step counts as complete, without evidence.
    Skip(StepId),
}

/// Why a control changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// It is for another run.
    #[error("it is for run {wanted}, and the run here is {current}")]
    OtherRun {
        /// The run that it names.
        wanted: String,
        /// The run that is here.
        current: String,
    },
    /// There is nothing left to change.
    #[error("run {uid} of plan {plan} is {status} already")]
    Ended {
        /// The plan.
        plan: String,
        /// The run.
        uid: String,
        /// How it ended.
        status: RunState,
    },
    /// The plan has no such step.
    #[error("plan {plan} has no step {step}: it has {}", known.join(", "))]
    NoStep {
        /// The plan.
        plan: String,
        /// What was asked for.
        step: StepId,
        /// The steps that it has.
        known: Vec<String>,
    },
    /// The step is not in a state that the control is for.
    #[error("step {step} is {status}: {needed}")]
    NotNow {
        /// The step.
        step: StepId,
        /// Where it stands.
        status: RunState,
        /// What it would have to be.
        needed: &'static str,
    },
}

/// The progress after a control on the run `uid`, which was set for `reason`.
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
                return Err(not_now(id, step.status, "only a step that failed is tried again"));
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

/// The first step that is not finished has failed, and the run with it.
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

/// The run goes on at this step.
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
