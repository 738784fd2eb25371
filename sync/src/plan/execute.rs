//! One pass over a plan.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    assemblage::FailureClass,
    plan::{PhaseProgress, RunProgress, RunState, StepProgress},
};

use super::{OnFailure, Phase, Plan, Step, StepId, Strategy, reshape};

/// The longest time between two passes, for kinds that are not watched.
const LONGEST_POLL: Duration = Duration::from_mins(1);

/// The outcomes of this pass, for each step that was applied.
pub type Observed = BTreeMap<StepId, StepOutcome>;

/// The outcome of applying a step and checking its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// All objects are up to date and healthy, with evidence.
    Done,
    /// Some objects are not healthy yet.
    Waiting {
        /// Which objects, and why.
        message: String,
    },
    /// The step could not be applied this time.
    Transient {
        /// The cause.
        message: String,
        /// The class of the failure, if it lasts until the timeout.
        class: FailureClass,
    },
    /// It is unknown whether the step ran: its Jobs are gone. It is tried again, which does not count as a failure.
    Lost {
        /// The missing Jobs.
        message: String,
    },
    /// The step failed permanently, but another attempt may succeed: a Job that gave up.
    Failed {
        /// The cause.
        message: String,
    },
    /// The step failed permanently, and would fail again: a template error, or an object that is refused as invalid.
    Fatal {
        /// The cause.
        message: String,
    },
}

/// A step to apply and check in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The step.
    pub step: StepId,
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
}

/// The result of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The progress; it must be stored before the task runs.
    pub progress: RunProgress,
    /// The task to run, whose outcome is needed to finish this pass; `None` if the pass is finished.
    pub task: Option<Task>,
    /// When the next pass is due at the latest; `None` if the run has ended.
    pub wake: Option<Timestamp>,
}

/// Runs one pass over the plan: from the outcomes `observed` so far to the progress and the next task. The caller
/// stores the progress, runs the task, adds its outcome to `observed` and calls this again, until there is no task.
/// Steps of a parallel phase get their tasks one after the other in one pass, and are waited for together.
pub fn execute(plan: &Plan, progress: RunProgress, observed: &Observed, now: Timestamp) -> Pass {
    if progress.status.is_terminal() {
        return Pass {
            progress,
            task: None,
            wake: None,
        };
    }
    let mut progress = reshape(plan, progress);
    let started = progress.since.get_or_insert(Time(now)).0;
    let mut walk = Walk {
        observed,
        now,
        overdue: plan.deadline.filter(|limit| until(started, *limit) <= now),
        task: None,
        due: plan.deadline.map(|limit| until(started, limit)),
    };
    let state = walk.plan(plan, &mut progress.phases);
    progress.status = state;
    let wake = (!state.is_terminal()).then(|| {
        walk.due
            .map_or_else(|| poll(started, now), |due| due.min(poll(started, now)))
    });
    Pass {
        progress,
        task: walk.task,
        wake,
    }
}

/// A step that ended in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The step.
    pub step: StepId,
    /// Its final state.
    pub status: RunState,
    /// Why the step failed.
    pub message: Option<String>,
}

/// The steps that ended between two states of the same run.
pub fn ended(before: &RunProgress, after: &RunProgress) -> Vec<Ended> {
    let steps = |progress: &RunProgress| -> BTreeMap<StepId, StepProgress> {
        progress
            .phases
            .iter()
            .flat_map(|phase| {
                phase
                    .steps
                    .iter()
                    .map(|step| (StepId::new(&phase.name, &step.name), step.clone()))
            })
            .collect()
    };
    let before = steps(before);
    steps(after)
        .into_iter()
        .filter(|(id, step)| {
            step.status.is_terminal() && before.get(id).is_none_or(|before| before.status != step.status)
        })
        .map(|(id, step)| Ended {
            step: id,
            status: step.status,
            message: step.message,
        })
        .collect()
}

/// The state of walking through a plan.
struct Walk<'a> {
    observed: &'a Observed,
    now: Timestamp,
    /// The deadline of the plan, if it has passed.
    overdue: Option<Duration>,
    task: Option<Task>,
    /// The earliest end of a timeout.
    due: Option<Timestamp>,
}

impl Walk<'_> {
    fn plan(&mut self, plan: &Plan, progress: &mut [PhaseProgress]) -> RunState {
        for (phase, progress) in plan.phases.iter().zip(progress.iter_mut()) {
            self.phase(phase, progress);
            if self.stops(plan.strategy, progress.status) {
                break;
            }
        }
        together(progress.iter().map(|phase| phase.status))
    }

    fn phase(&mut self, phase: &Phase, progress: &mut PhaseProgress) {
        for (step, progress) in phase.steps.iter().zip(&mut progress.steps) {
            self.step(&phase.name, step, progress);
            if self.stops(phase.strategy, goes_on(step, progress)) {
                break;
            }
        }
        let steps = phase.steps.iter().zip(&progress.steps);
        progress.status = together(steps.map(|(step, progress)| goes_on(step, progress)));
    }

    /// Whether the rest of the plan is not reached in this pass.
    fn stops(&self, strategy: Strategy, state: RunState) -> bool {
        self.task.is_some()
            || state == RunState::FatalError
            || (strategy == Strategy::Serial && state != RunState::Complete)
    }

    fn step(&mut self, phase: &str, step: &Step, progress: &mut StepProgress) {
        if progress.status.is_terminal() {
            return;
        }
        let not_begun = matches!(progress.status, RunState::NeverRun | RunState::Pending);
        let since = progress.since.get_or_insert(Time(self.now)).0;
        progress.attempt = progress.attempt.max(1);
        progress.digest = Some(step.digest.clone());
        let id = StepId::new(phase, &step.name);
        let outcome = self.observed.get(&id);
        if let (true, Some(deadline)) = (not_begun, self.overdue) {
            return fail(progress, too_late(deadline), FailureClass::Revision);
        }
        match outcome {
            None => {
                if progress.status != RunState::Error {
                    progress.status = RunState::InProgress;
                }
                self.task = Some(Task {
                    step: id,
                    attempt: progress.attempt,
                });
            }
            Some(StepOutcome::Done) => end(progress, RunState::Complete, None, None),
            Some(StepOutcome::Fatal { message }) => fail(progress, message.clone(), FailureClass::Revision),
            Some(StepOutcome::Lost { message }) => {
                progress.attempt += 1;
                progress.lost += 1;
                progress.status = RunState::Error;
                progress.message = Some(message.clone());
            }
            Some(StepOutcome::Failed { message }) if progress.attempt - progress.lost > step.retries => {
                fail(progress, message.clone(), FailureClass::Revision);
            }
            Some(StepOutcome::Failed { message }) => {
                let tried = progress.attempt - progress.lost;
                progress.attempt += 1;
                progress.status = RunState::Error;
                progress.message = Some(format!(
                    "attempt {tried} of {} failed: {message}",
                    step.retries.saturating_add(1)
                ));
            }
            Some(StepOutcome::Waiting { message }) => {
                progress.status = RunState::InProgress;
                progress.message = (!message.is_empty()).then(|| message.clone());
            }
            Some(StepOutcome::Transient { message, .. }) => {
                progress.status = RunState::Error;
                progress.message = Some(message.clone());
            }
        }
        let Some(outcome) = outcome.filter(|_| !progress.status.is_terminal()) else {
            return;
        };
        let ends = until(since, step.timeout);
        self.due = Some(self.due.map_or(ends, |due| due.min(ends)));
        let limit = match (ends <= self.now, self.overdue) {
            (true, _) => format!("not done within {}", human(step.timeout)),
            (false, Some(deadline)) => too_late(deadline),
            (false, None) => return,
        };
        let message = match progress.message.take() {
            Some(cause) => format!("{limit}: {cause}"),
            None => limit,
        };
        fail(progress, message, class(outcome));
    }
}

fn too_late(deadline: Duration) -> String {
    format!("the plan did not end within its deadline of {}", human(deadline))
}

/// The failure class if a timeout ends with this outcome.
fn class(outcome: &StepOutcome) -> FailureClass {
    match outcome {
        StepOutcome::Transient { class, .. } => *class,
        StepOutcome::Lost { .. } => FailureClass::Unit,
        StepOutcome::Done
        | StepOutcome::Waiting { .. }
        | StepOutcome::Failed { .. }
        | StepOutcome::Fatal { .. } => FailureClass::Revision,
    }
}

fn fail(progress: &mut StepProgress, message: String, class: FailureClass) {
    end(progress, RunState::FatalError, Some(message), Some(class));
}

fn end(progress: &mut StepProgress, status: RunState, message: Option<String>, class: Option<FailureClass>) {
    progress.status = status;
    progress.message = message;
    progress.class = class;
}

/// A step's state as its phase counts it: a step that is allowed to fail does not stop the plan.
fn goes_on(step: &Step, progress: &StepProgress) -> RunState {
    match (progress.status, step.on_failure) {
        (RunState::FatalError, OnFailure::Continue) => RunState::Complete,
        (state, _) => state,
    }
}

/// The combined state of these states.
fn together(states: impl Iterator<Item = RunState>) -> RunState {
    let states: Vec<RunState> = states.collect();
    let has = |state| states.contains(&state);
    if has(RunState::FatalError) {
        RunState::FatalError
    } else if states.iter().all(|state| *state == RunState::Complete) {
        RunState::Complete
    } else if has(RunState::InProgress) || has(RunState::Error) || has(RunState::Complete) {
        RunState::InProgress
    } else {
        RunState::Pending
    }
}

/// When a run that began at `started` is due for its next pass, if no event arrives before: after one second, plus a
/// second for each minute that the run has taken, as in KUDO.
fn poll(started: Timestamp, now: Timestamp) -> Timestamp {
    let minutes = u64::try_from(now.duration_since(started).as_mins()).unwrap_or(0);
    until(
        now,
        Duration::from_secs(minutes.saturating_add(1)).min(LONGEST_POLL),
    )
}

fn until(start: Timestamp, limit: Duration) -> Timestamp {
    SignedDuration::try_from(limit)
        .ok()
        .and_then(|limit| start.checked_add(limit).ok())
        .unwrap_or(Timestamp::MAX)
}

fn human(limit: Duration) -> muster_api::duration::Duration {
    muster_api::duration::Duration::from_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
}
