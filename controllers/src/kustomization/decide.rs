//! Which step is next. Pure.

use jiff::Timestamp;

use super::{
    observe::Observed,
    runs::{Aim, Phase, Target},
    settings::{Refusal, Settings},
    source::SourceRow,
};

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// It is being deleted and nothing holds it.
    Forget,
    /// It is being deleted: what it applied goes or stays by its policy.
    Finalize,
    /// Our finalizer comes first.
    Hold,
    /// Suspended: nothing, and nothing is said.
    Suspended,
    /// The spec cannot be carried out.
    Refuse(Refusal),
    /// There is nothing to apply yet.
    AwaitSource { message: String },
    /// What it depends on is not ready.
    AwaitDependency { message: String },
    /// Apply.
    Apply(Box<Work>),
    /// Look at the health of what was applied.
    Check {
        aim: Aim,
        settings: Settings,
        since: Timestamp,
        targets: Vec<Target>,
    },
    /// Nothing is due before then.
    Rest { until: Timestamp },
}

/// An application that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Work {
    pub aim: Aim,
    pub settings: Settings,
    pub source: SourceRow,
    pub allow_empty: bool,
    /// Whether the status does not speak of it yet: then it is announced.
    pub anew: bool,
}

pub(super) fn decide(observed: &Observed) -> Decision {
    if observed.deleting {
        return if observed.held {
            Decision::Finalize
        } else {
            Decision::Forget
        };
    }
    if !observed.held {
        return Decision::Hold;
    }
    if observed.suspended {
        return Decision::Suspended;
    }
    let settings = match &observed.settings {
        Ok(settings) => settings.clone(),
        Err(refusal) => return Decision::Refuse(refusal.clone()),
    };
    let Some(source) = &observed.source else {
        let message = format!("Source 'GitRepository/{}' not found", observed.source_name);
        return Decision::AwaitSource { message };
    };
    let Some(revision) = &source.revision else {
        let trouble = source.trouble.as_deref().unwrap_or("it was not fetched yet");
        let message = format!(
            "Source artifact not found: GitRepository/{}: {trouble}",
            observed.source_name
        );
        return Decision::AwaitSource { message };
    };
    let aim = Aim {
        uid: observed.uid.clone(),
        generation: observed.generation,
        revision: revision.clone(),
        requested: observed.requested.clone(),
    };
    let last = observed.run.as_ref().filter(|run| run.aim == aim);
    match last.map(|run| &run.phase) {
        Some(Phase::Checking { since, targets }) => {
            return Decision::Check {
                aim,
                settings,
                since: *since,
                targets: targets.clone(),
            };
        }
        Some(Phase::Resting { until }) if observed.now < *until => return Decision::Rest { until: *until },
        Some(Phase::Resting { .. }) | None => {}
    }
    if let Some(message) = &observed.waits_for {
        return Decision::AwaitDependency {
            message: message.clone(),
        };
    }
    let anew = observed.spoken_of.as_deref() != Some(revision);
    let (source, allow_empty) = (source.clone(), observed.allow_empty);
    Decision::Apply(Box::new(Work {
        aim,
        settings,
        source,
        allow_empty,
        anew,
    }))
}
