//! Plans: the order in which the files of a directory are applied in a cluster, and what runs before and after.
//!
//! ```text
//!   plan file ─► file: typed, checked against the files ─► Plan
//!   Plan + stored progress ─► reshape ─► execute ◄── observed: what applying and judging a step gave
//!                                          │
//!                                          └─► progress to store, the next step to apply, when to come back
//! ```
//!
//! A plan consists of phases, a phase of steps. If serial, the next one starts when the previous one is finished; if
//! parallel, all run at the same time. The rules are those of KUDO's engine, except where it violates its own:
//! `e2e/conformance/deviations.toml`.
//!
//! Invariant: a run, a phase or a step is complete only with evidence, or is marked as assumed.
//! Invariant: a run that has ended does not change on its own.
//! Invariant: progress never contains more than the plan does: it is reshaped before it is used.

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
    execute::{Ended, Observed, Pass, StepOutcome, Task, ended, execute},
    file::{Documents, PlanError, PlanFile, PlanProblem},
    planned::{Attempt, CLEANUP, Next, Planned, PlannedError, Planning, by_hand, is_job, job_name},
    reshape::{began, reshape},
    wait::{Waited, waited},
};

/// Whether a file is a plan file.
pub fn is_plan_file(file: &crate::source::File) -> bool {
    let documents = crate::yaml::documents(&file.path, &file.bytes).unwrap_or_default();
    documents.iter().any(is_plan_document)
}

/// Whether the parts of a plan run one after the other or in parallel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// One after the other, in the order of the file.
    #[default]
    Serial,
    /// All at once; a permanent failure still stops those that have not started.
    Parallel,
}

/// What happens when a step has failed permanently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum OnFailure {
    /// The run fails.
    #[default]
    Stop,
    /// The run continues; the failure is reported.
    Continue,
}

/// A plan of one version, resolved: steps name the files that they apply, and excluded steps are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Name of the plan, such as `deploy`.
    pub name: String,
    /// Whether the phases run serially or in parallel.
    pub strategy: Strategy,
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// The longest time that a whole run may take; `None` if unlimited.
    pub deadline: Option<Duration>,
}

/// A phase of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Name of the phase, unique in the plan.
    pub name: String,
    /// Whether the steps run serially or in parallel.
    pub strategy: Strategy,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A step of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Name of the step, unique in the phase.
    pub name: String,
    /// Paths of the files whose objects are applied.
    pub apply: Vec<String>,
    /// The objects that are deleted.
    pub delete: Vec<Deleted>,
    /// How long the step may take.
    pub timeout: Duration,
    /// How often the step is tried again after a permanent failure.
    pub retries: u32,
    /// What happens after a permanent failure.
    pub on_failure: OnFailure,
    /// Hash of the step's content: a step that has changed runs again.
    pub digest: String,
}

/// An object that a step deletes; it must be in the inventory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deleted {
    /// API group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
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

/// A step of a plan, identified by the names of its phase and itself: `schema/migrate`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// Name of the phase.
    pub phase: String,
    /// Name of the step.
    pub step: String,
}

impl StepId {
    /// Creates the id of a step.
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
    /// The step with this id.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        let phase = self.phases.iter().find(|phase| phase.name == id.phase)?;
        phase.steps.iter().find(|step| step.name == id.step)
    }
}

impl fmt::Display for Plan {
    /// The output of `muster build --plan`: each step with what it applies and deletes.
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
