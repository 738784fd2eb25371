//! A directory that is applied by plans: its plans, which one is next, and the objects of each step.

use std::{fmt, time::Duration};

use muster_api::{
    digest::{SHORT_LENGTH, sha256_hex, short_hash},
    labels::label,
    plan::{Completed, PlanRunStatus, RunState},
    schema::MAX_LABEL,
};
use serde_json::{Value, json};

use super::{Documents, Phase, Plan, PlanError, PlanFile, Step, StepId, Strategy, file::DEPLOY};
use crate::{
    build::{BuildError, BuildErrors, BuildOptions, Manifest, build},
    source::Files,
    substitute::Variables,
};

/// The plan for a newer version.
pub(crate) const UPDATE: &str = "update";
/// The plan for a version that completed in this cluster before.
pub(crate) const ROLLBACK: &str = "rollback";

/// The plan that runs before the objects are removed.
pub const CLEANUP: &str = "cleanup";

/// The plans of a file that are only run manually.
pub fn by_hand(plans: &PlanFile) -> impl Iterator<Item = &str> {
    let by_itself = [DEPLOY, UPDATE, ROLLBACK, CLEANUP];
    plans.names().filter(move |name| !by_itself.contains(name))
}

/// The plan file of a directory, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Planning<'a> {
    /// The directory, relative to the root of the repository.
    pub directory: &'a str,
    /// Path of the plan file, relative to the directory.
    pub file: &'a str,
    /// The longest timeout allowed for a step.
    pub timeout: Duration,
    /// The longest time that one run may take.
    pub deadline: Option<Duration>,
}

impl Planning<'_> {
    /// Whether a path is that of the plan file. A leading `./` or `/` is ignored.
    pub fn names(&self, path: &str) -> bool {
        let plain = |path: &str| path.trim_start_matches("./").trim_start_matches('/').to_owned();
        plain(path) == plain(&[self.directory.trim_matches('/'), self.file].join("/"))
    }
}

/// A directory, its plans, and the objects built from its files for a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    manifests: Vec<Manifest>,
    plans: PlanFile,
    deadline: Option<Duration>,
    digest: String,
    plans_digest: String,
}

/// Why a directory cannot be applied by its plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedError {
    /// Problems with the objects.
    Build(BuildErrors),
    /// Problems with the plans.
    Plans(Vec<PlanError>),
    /// The plan file named in the Module does not exist.
    NoFile {
        /// The path in the Module, relative to the directory.
        file: String,
        /// The full path, relative to the root of the repository.
        directory: String,
    },
}

impl fmt::Display for PlannedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(errors) => write!(f, "{errors}"),
            Self::Plans(errors) => {
                let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::NoFile { file, directory } => write!(
                f,
                "spec.sync.package.plan.file: there is no {file:?} below {directory:?}, or it is not a .yaml or .yml file"
            ),
        }
    }
}

impl std::error::Error for PlannedError {}

/// What is next for a directory in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The current run continues, or stays as it ended.
    Same,
    /// Start a new run of the plan with this name.
    Begin(String),
}

/// An attempt of a step in a run; the names of its Jobs are derived from it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// UID of the run.
    pub uid: &'a str,
    /// The step.
    pub step: &'a StepId,
    /// Number of the attempt, starting at 1.
    pub number: u32,
}

impl Planned {
    /// Builds a directory and its plans.
    pub fn read(
        files: &Files,
        planning: &Planning<'_>,
        options: &BuildOptions,
    ) -> Result<Self, PlannedError> {
        let (file, others): (Vec<_>, Vec<_>) =
            files.iter().cloned().partition(|file| planning.names(&file.path));
        let Some(file) = file.first() else {
            return Err(PlannedError::NoFile {
                file: planning.file.to_owned(),
                directory: planning.directory.to_owned(),
            });
        };
        let manifests = build(&Files::new(others), options).map_err(PlannedError::Build)?;
        let variables = Variables::new(&options.substitute)
            .map_err(|problem| PlannedError::Build(BuildError::Variables(problem).into()))?;
        let about = Documents {
            directory: planning.directory,
            manifests: &manifests,
            variables: &variables,
            timeout: Some(planning.timeout),
        };
        let plans = PlanFile::read(file, &about).map_err(PlannedError::Plans)?;
        Ok(Self {
            digest: digest(manifests.iter()),
            plans_digest: sha256_hex(&[&format!("{plans:?} {:?}", planning.deadline)]),
            manifests,
            plans,
            deadline: planning.deadline,
        })
    }

    /// The hash of all rendered documents: if it is equal, no new run starts.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The hash of the plans.
    pub fn plans_digest(&self) -> &str {
        &self.plans_digest
    }

    /// The plans of the file.
    pub fn plans(&self) -> &PlanFile {
        &self.plans
    }

    /// All documents of the directory.
    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    /// The plan with this name; for [`ROLLBACK`] there is always one.
    pub fn plan(&self, name: &str) -> Option<Plan> {
        let written = self.plans.plan(name).cloned();
        let plan = written.or_else(|| (name == ROLLBACK).then(|| self.rest()))?;
        Some(Plan {
            deadline: self.deadline,
            ..plan
        })
    }

    /// Whether a new run starts. Only different documents, a greater `attempt` or, after a failure, different plans
    /// start one; a revision, a token or a setting that results in the same documents does not.
    pub fn next(&self, status: &PlanRunStatus, attempt: u64) -> Next {
        let Some(run) = &status.run else {
            return Next::Begin(self.way(&status.completed).to_owned());
        };
        let failed = run.progress.status == RunState::FatalError;
        if run.documents_digest != self.digest {
            Next::Begin(self.way(&status.completed).to_owned())
        } else if attempt > run.attempt || (failed && run.plans_digest != self.plans_digest) {
            Next::Begin(run.progress.plan.clone())
        } else {
            Next::Same
        }
    }

    /// Whether a run of this plan starts: it runs once, and after a failure again if `attempt` is greater.
    pub fn next_of(&self, name: &str, status: &PlanRunStatus, attempt: u64) -> Next {
        match &status.run {
            Some(run) if run.progress.plan == name && attempt <= run.attempt => Next::Same,
            _ => Next::Begin(name.to_owned()),
        }
    }

    /// The name of the plan to use: for the first installation, for a newer version, or for a version that completed
    /// before.
    fn way(&self, completed: &[Completed]) -> &'static str {
        if completed.is_empty() {
            DEPLOY
        } else if completed
            .iter()
            .any(|before| before.documents_digest == self.digest)
        {
            ROLLBACK
        } else if self.plans.plan(UPDATE).is_some() {
            UPDATE
        } else {
            DEPLOY
        }
    }

    /// Whether a rollback omits Jobs because there is no rollback plan.
    pub fn leaves_jobs_out(&self, plan: &str) -> bool {
        plan == ROLLBACK && self.plans.plan(ROLLBACK).is_none()
    }

    /// The rollback without a plan: the files that no step names, without Jobs.
    fn rest(&self) -> Plan {
        let is_rest = |manifest: &&Manifest| {
            self.plans
                .rest()
                .iter()
                .any(|path| **path == *manifest.origin.file)
        };
        let manifests: Vec<&Manifest> = self.manifests.iter().filter(is_rest).collect();
        let step = Step {
            name: "rest".to_owned(),
            apply: self.plans.rest().to_vec(),
            timeout: super::file::TIMEOUT,
            digest: digest(manifests.iter().copied()),
            ..Step::default()
        };
        Plan {
            name: ROLLBACK.to_owned(),
            strategy: Strategy::Serial,
            phases: vec![Phase {
                name: ROLLBACK.to_owned(),
                strategy: Strategy::Serial,
                steps: vec![step],
            }],
            deadline: None,
        }
    }

    /// The objects of a step as an attempt applies them: Jobs get a unique name and are kept after they finish.
    pub fn objects(&self, plan: &str, step: &Step, attempt: &Attempt<'_>) -> Vec<Value> {
        let without_jobs = self.leaves_jobs_out(plan);
        self.manifests
            .iter()
            .filter(|manifest| step.apply.iter().any(|path| **path == *manifest.origin.file))
            .filter(|manifest| !(without_jobs && is_job(manifest)))
            .map(|manifest| {
                if is_job(manifest) {
                    job(manifest.object.clone(), attempt)
                } else {
                    manifest.object.clone()
                }
            })
            .collect()
    }

    /// What is kept after a run: all objects except Jobs, which belong to runs.
    pub fn lasting(&self) -> impl Iterator<Item = &Manifest> {
        self.manifests.iter().filter(|manifest| !is_job(manifest))
    }
}

/// The hash of a set of documents.
fn digest<'a>(manifests: impl Iterator<Item = &'a Manifest>) -> String {
    let texts: Vec<String> = manifests.map(|manifest| manifest.object.to_string()).collect();
    sha256_hex(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether an object is a Job, which belongs to a run.
pub fn is_job(manifest: &Manifest) -> bool {
    let gvk = manifest.gvk();
    (gvk.group.as_str(), gvk.kind.as_str()) == ("batch", "Job")
}

/// A Job of an attempt: its name identifies the attempt, and it is not deleted after it finishes.
fn job(mut object: Value, attempt: &Attempt<'_>) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let name = job_name(name, attempt);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["labels"][label::PLAN_RUN] = json!(attempt.uid);
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("ttlSecondsAfterFinished");
    }
    object
}

/// The name of a Job of an attempt: the name in the file, truncated to fit, and a hash of run, phase, step and attempt.
pub fn job_name(stem: &str, attempt: &Attempt<'_>) -> String {
    let Attempt { uid, step, number } = attempt;
    let hash = short_hash(&[uid, &step.phase, &step.step, &number.to_string(), stem]);
    let room = MAX_LABEL - SHORT_LENGTH - 1;
    let cut = stem
        .char_indices()
        .nth(room)
        .map_or(stem, |(end, _)| &stem[..end]);
    format!("{}-{hash}", cut.trim_end_matches(['-', '.']))
}
