//! Plans: in which order the files of a folder are applied in a cluster, and what runs before and after.
//!
//! ```text
//!   plan file ─► file: typed, checked against the files ─► Plan
//!   Plan + stored progress ─► reshape ─► execute ◄── observed: what applying and judging a step gave
//!                                          │
//!                                          └─► progress to store, the next step to apply, when to come back
//! ```
//!
//! A plan is phases, a phase is steps. Of a serial one the next begins when the one before is finished, of a parallel one all
//! are under way together. The rules are those of KUDO's engine, except where it breaks its own: `e2e/conformance/deviations.toml`.
//!
//! Invariant: a run, a phase or a step is complete only by evidence, or marked as assumed.
//! Invariant: a run that has ended changes no more by itself.
//! Invariant: progress never says more than the plan has: it is re-shaped before it is used.

mod control;
mod execute;
mod file;
mod planned;
mod reshape;
mod wait;

use std::{fmt, time::Duration};

pub use crate::build::is_plan;
use crate::build::is_plan_document;

pub use self::{
    control::{Control, ControlError, control},
    execute::{Ended, Observed, Outcome, Pass, Task, ended, execute},
    file::{Documents, PlanError, PlanFile, PlanProblem},
    planned::{Attempt, CLEANUP, Next, Planned, PlannedError, Planning, by_hand, is_job, job_name},
    reshape::{began, reshape},
    wait::{Waited, waited},
};

/// Whether a file is one of plans.
pub fn is_plan_file(file: &crate::source::File) -> bool {
    let documents = crate::yaml::documents(&file.path, &file.bytes).unwrap_or_default();
    documents.iter().any(is_plan_document)
}

/// Whether parts of a plan follow one another or are under way together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// One after the other, in the order of the text.
    #[default]
    Serial,
    /// All together; what failed for good still stops those that have not begun.
    Parallel,
}

/// What is done when a step has failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum OnFailure {
    /// The run has failed.
    #[default]
    Stop,
    /// The run goes on; the failure is reported.
    Continue,
}

/// A plan of one version, resolved: steps name the files that they apply, and steps that are left out are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The plan's name.
    pub name: String,
    /// How the phases follow one another.
    pub strategy: Strategy,
    /// The phases.
    pub phases: Vec<Phase>,
    /// The longest time of a whole run.
    pub deadline: Option<Duration>,
}

/// A phase of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// The phase's name: one of its plan.
    pub name: String,
    /// How the steps follow one another.
    pub strategy: Strategy,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The step's name: one of its phase.
    pub name: String,
    /// The files whose objects are applied.
    pub apply: Vec<String>,
    /// The objects that are deleted.
    pub delete: Vec<Deleted>,
    /// How long it may take.
    pub timeout: Duration,
    /// How often what failed for good is tried again.
    pub retries: u32,
    /// What is done when it has failed for good.
    pub on_failure: OnFailure,
    /// The hash of what it is: a step that has changed runs again.
    pub digest: String,
}

/// An object that a step deletes; it has to be in the inventory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deleted {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for what has none.
    #[serde(default)]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for Deleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// A step of a plan, by the names of its phase and itself: `schema/migrate`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// The phase's name.
    pub phase: String,
    /// The step's name.
    pub step: String,
}

impl StepId {
    /// The step of a phase.
    pub fn new(phase: impl Into<String>, step: impl Into<String>) -> Self {
        Self {
            phase: phase.into(),
            step: step.into(),
        }
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.phase, self.step)
    }
}

impl Plan {
    /// A step by its phase and its name.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        let phase = self.phases.iter().find(|phase| phase.name == id.phase)?;
        phase.steps.iter().find(|step| step.name == id.step)
    }
}

impl fmt::Display for Plan {
    /// As `muster build --plan` prints it: each step with what it applies and deletes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {} ({})", self.name, self.strategy)?;
        for phase in &self.phases {
            writeln!(f, "  {} ({})", phase.name, phase.strategy)?;
            for step in &phase.steps {
                write!(f, "    {}", step.name)?;
                if step.retries > 0 {
                    write!(f, ", {} retries", step.retries)?;
                }
                if step.on_failure == OnFailure::Continue {
                    write!(f, ", may fail")?;
                }
                writeln!(f)?;
                step.apply
                    .iter()
                    .try_for_each(|file| writeln!(f, "      apply {file}"))?;
                step.delete
                    .iter()
                    .try_for_each(|object| writeln!(f, "      delete {object}"))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serial => "serial",
            Self::Parallel => "parallel",
        })
    }
}
