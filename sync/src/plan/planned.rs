//! A folder that is applied by a plan: its plans, which of them is next, and the objects of each step.

use std::{fmt, time::Duration};

use muster_api::{
    digest::{SHORT_LENGTH, sha256_hex, short},
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

/// The plan of a later version.
pub(crate) const UPDATE: &str = "update";
/// The plan of a version that completed here before.
pub(crate) const ROLLBACK: &str = "rollback";

/// The plan before the objects are removed.
pub const CLEANUP: &str = "cleanup";

/// The plans of a file that run by hand alone.
pub fn by_hand(plans: &PlanFile) -> impl Iterator<Item = &str> {
    let by_itself = [DEPLOY, UPDATE, ROLLBACK, CLEANUP];
    plans.names().filter(move |name| !by_itself.contains(name))
}

/// By which file a folder is applied.
#[derive(Clone, Copy, Debug)]
pub struct Planning<'a> {
    /// The folder, from the root of the repository.
    pub folder: &'a str,
    /// The file of plans, below the folder.
    pub file: &'a str,
    /// The longest timeout that a step may have.
    pub timeout: Duration,
    /// The longest time that one run may take.
    pub deadline: Option<Duration>,
}

impl Planning<'_> {
    /// Whether a path is that of the file of plans. A `./` or `/` before either says nothing else.
    pub fn names(&self, path: &str) -> bool {
        let plain = |path: &str| path.trim_start_matches("./").trim_start_matches('/').to_owned();
        plain(path) == plain(&[self.folder.trim_matches('/'), self.file].join("/"))
    }
}

/// A folder, its plans, and what its files make in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    manifests: Vec<Manifest>,
    plans: PlanFile,
    deadline: Option<Duration>,
    digest: String,
    plans_digest: String,
}

/// Why a folder cannot be applied by its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedError {
    /// What is wrong with its objects.
    Build(BuildErrors),
    /// What is wrong with its plans.
    Plans(Vec<PlanError>),
    /// The file that the Module names is not there.
    NoFile {
        /// Below the folder.
        file: String,
        /// From the root of the repository.
        folder: String,
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
            Self::NoFile { file, folder } => write!(
                f,
                "spec.sync.package.plan.file: there is no {file:?} below {folder:?}, or it is no .yaml or .yml file"
            ),
        }
    }
}

impl std::error::Error for PlannedError {}

/// What is next for a folder in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The run that is there goes on, or stays as it ended.
    Same,
    /// A new run of the plan of this name.
    Begin(String),
}

/// A try of a step in a run: what the names of its Jobs are made of.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The run.
    pub uid: &'a str,
    /// The step.
    pub step: &'a StepId,
    /// Which try it is, from 1.
    pub number: u32,
}

impl Planned {
    /// Reads a folder and its plans.
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
                folder: planning.folder.to_owned(),
            });
        };
        let manifests = build(&Files::new(others), options).map_err(PlannedError::Build)?;
        let variables = Variables::new(&options.substitute)
            .map_err(|problem| PlannedError::Build(BuildError::Variables(problem).into()))?;
        let about = Documents {
            folder: planning.folder,
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

    /// The hash of all documents, rendered: equal ones start no run.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The hash of the plans.
    pub fn plans_digest(&self) -> &str {
        &self.plans_digest
    }

    /// The plans, as they are written.
    pub fn plans(&self) -> &PlanFile {
        &self.plans
    }

    /// All documents.
    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    /// The plan of a name; of the name [`ROLLBACK`] always one.
    pub fn plan(&self, name: &str) -> Option<Plan> {
        let written = self.plans.plan(name).cloned();
        let plan = written.or_else(|| (name == ROLLBACK).then(|| self.rest()))?;
        Some(Plan {
            deadline: self.deadline,
            ..plan
        })
    }

    /// Whether a run begins. Only other documents, a greater `attempt` or, after a failure, other plans begin one: not a revision, a
    /// token or a setting that makes the same documents.
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

    /// Whether a run of this plan begins: it runs once, and after a failure again where `attempt` is greater.
    pub fn next_of(&self, name: &str, status: &PlanRunStatus, attempt: u64) -> Next {
        match &status.run {
            Some(run) if run.progress.plan == name && attempt <= run.attempt => Next::Same,
            _ => Next::Begin(name.to_owned()),
        }
    }

    /// The name of the plan that takes the cluster here: the first time, to a later version, or back to one that completed before.
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

    /// Whether going back leaves Jobs out, because no plan says how to go back.
    pub fn leaves_jobs_out(&self, plan: &str) -> bool {
        plan == ROLLBACK && self.plans.plan(ROLLBACK).is_none()
    }

    /// Going back without a plan for it: the files that no step names, and no Jobs.
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

    /// The objects of a step, as a try of it applies them: Jobs have a name of their own and stay when they have finished.
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

    /// What stays after a run: all objects but Jobs, which belong to runs.
    pub fn lasting(&self) -> impl Iterator<Item = &Manifest> {
        self.manifests.iter().filter(|manifest| !is_job(manifest))
    }
}

/// The hash of documents.
fn digest<'a>(manifests: impl Iterator<Item = &'a Manifest>) -> String {
    let texts: Vec<String> = manifests.map(|manifest| manifest.object.to_string()).collect();
    sha256_hex(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether an object is a Job, which belongs to a run.
pub fn is_job(manifest: &Manifest) -> bool {
    let gvk = manifest.gvk();
    (gvk.group.as_str(), gvk.kind.as_str()) == ("batch", "Job")
}

/// A Job of a try: its name says of which, and it is not deleted when it has finished.
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

/// The name of a Job of a try: what the file says, cut to fit, and a hash of run, phase, step and try.
pub fn job_name(stem: &str, attempt: &Attempt<'_>) -> String {
    let Attempt { uid, step, number } = attempt;
    let hash = short(&[uid, &step.phase, &step.step, &number.to_string(), stem]);
    let room = MAX_LABEL - SHORT_LENGTH - 1;
    let cut = stem
        .char_indices()
        .nth(room)
        .map_or(stem, |(end, _)| &stem[..end]);
    format!("{}-{hash}", cut.trim_end_matches(['-', '.']))
}
