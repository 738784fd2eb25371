//! Adapts stored progress to a plan.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::plan::{PhaseProgress, RunProgress, RunState, StepProgress};

use super::{Phase, Plan};

/// The progress of a new run, before its first step.
pub fn began(plan: &Plan, uid: impl Into<String>, now: Timestamp) -> RunProgress {
    let begun = RunProgress {
        plan: plan.name.clone(),
        uid: uid.into(),
        status: RunState::Pending,
        since: Some(Time(now)),
        phases: Vec::new(),
    };
    reshape(plan, begun)
}

/// Reshapes progress to fit the plan. Parts that the plan no longer has are removed; new parts will run; a step that
/// exists keeps its state, unless its content has changed since it completed: then it runs again.
pub fn reshape(plan: &Plan, progress: RunProgress) -> RunProgress {
    let fresh = match progress.status {
        RunState::NeverRun => RunState::NeverRun,
        _ => RunState::Pending,
    };
    let mut known: BTreeMap<String, PhaseProgress> = by_name(progress.phases, |phase| &phase.name);
    RunProgress {
        phases: plan
            .phases
            .iter()
            .map(|phase| reshape_phase(phase, known.remove(&phase.name), fresh))
            .collect(),
        ..progress
    }
}

fn reshape_phase(phase: &Phase, known: Option<PhaseProgress>, fresh: RunState) -> PhaseProgress {
    let (status, steps) = known.map_or((fresh, Vec::new()), |known| (known.status, known.steps));
    let mut known = by_name(steps, |step| &step.name);
    PhaseProgress {
        name: phase.name.clone(),
        status,
        steps: phase
            .steps
            .iter()
            .map(|step| {
                let same =
                    |known: &StepProgress| known.digest.as_ref().is_none_or(|digest| *digest == step.digest);
                known
                    .remove(&step.name)
                    .filter(same)
                    .unwrap_or_else(|| StepProgress {
                        name: step.name.clone(),
                        status: fresh,
                        ..StepProgress::default()
                    })
            })
            .collect(),
    }
}

/// If two have the same name, the first counts.
fn by_name<T>(items: Vec<T>, name: impl Fn(&T) -> &str) -> BTreeMap<String, T> {
    items
        .into_iter()
        .rev()
        .map(|item| (name(&item).to_owned(), item))
        .collect()
}
