//! The plan file: parsed, and checked against the files and objects that it refers to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use globset::{GlobBuilder, GlobMatcher};
use muster_api::digest::sha256_hex;
use serde::Deserialize;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::{Deleted, OnFailure, Phase, Plan, Step, StepId, Strategy};
use crate::{
    build::{
        Manifest,
        plans::{API_VERSION, KIND},
    },
    source::File,
    substitute::{self, SubstituteProblem, Variables},
    yaml::{self, Document, Kind, Node, Position, YamlError},
};

/// The plan for the first installation, which every file must have.
pub(crate) const DEPLOY: &str = "deploy";
/// In `apply`: all files that no step of any plan names.
pub(crate) const REST: &str = "*";
/// The default timeout of a step.
pub(super) const TIMEOUT: Duration = Duration::from_mins(5);

/// A problem in a plan file, and its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{at}: {problem}")]
pub struct PlanError {
    /// The name of the plan file.
    pub file: Arc<str>,
    /// Position in the file.
    pub at: Position,
    /// The problem at this position.
    pub problem: Box<PlanProblem>,
}

/// What is invalid in a plan file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanProblem {
    /// The file is not exactly one document of kind Plan.
    #[error("a plan file is one document of kind Plan ({API_VERSION}), and this is {0}")]
    NotAPlan(String),
    /// A field that is unknown, missing or of the wrong type.
    #[error("{field}: {why}")]
    Shape {
        /// The path of the field.
        field: String,
        /// What is wrong with the field.
        why: String,
    },
    /// The plan for the first installation is missing.
    #[error("there is no plan {DEPLOY}: it is required for the first installation in a cluster")]
    NoDeploy,
    /// A name that is invalid in labels and Job names.
    #[error(
        "{0:?} is not a valid name for a plan, phase or step: at most 63 lower-case letters, digits and -, starting and ending with a letter or digit"
    )]
    Name(String),
    /// A duplicate name.
    #[error("{0} occurs twice: progress is stored by name")]
    Twice(String),
    /// `when` cannot be expanded.
    #[error("when: {0}")]
    When(SubstituteProblem),
    /// An invalid pattern.
    #[error("{pattern:?} is not a file pattern: {why}")]
    Pattern {
        /// The pattern as written.
        pattern: String,
        /// What is wrong with the pattern.
        why: String,
    },
    /// A pattern that matches no file.
    #[error("no file {0:?} below the directory")]
    NoFile(String),
    /// A file that two steps of the same plan apply.
    #[error("{file} is applied by step {first} of plan {plan} already; a file is in one step of a plan")]
    InTwoSteps {
        /// Path of the file.
        file: String,
        /// Name of the plan.
        plan: String,
        /// The first of the two steps.
        first: StepId,
    },
    /// An object that one step applies and another deletes.
    #[error("{object} is applied by step {by}; a step deletes only what no other step applies")]
    Applied {
        /// The object.
        object: Box<Deleted>,
        /// The step that applies it.
        by: StepId,
    },
    /// A step that depends on an object of a later step.
    #[error("{object} needs {needed}, which step {later} applies only later: the plan would wait for itself")]
    Cycle {
        /// The object that cannot be applied.
        object: String,
        /// The object that must exist first.
        needed: String,
        /// The later step that applies it.
        later: StepId,
    },
    /// A step whose timeout exceeds the timeout of the whole package.
    #[error("timeout {timeout} is longer than the {limit} of spec.sync.package.timeout")]
    Timeout {
        /// Timeout of the step.
        timeout: muster_api::duration::Duration,
        /// Timeout of the package.
        limit: muster_api::duration::Duration,
    },
}

/// What the plans of a file refer to.
#[derive(Debug, Clone, Copy)]
pub struct Documents<'a> {
    /// The directory, relative to the root of the repository; empty for the root.
    pub directory: &'a str,
    /// The objects built from the other files in the directory.
    pub manifests: &'a [Manifest],
    /// The variables that `when` may use.
    pub variables: &'a Variables,
    /// The longest timeout allowed for a step.
    pub timeout: Option<Duration>,
}

/// The plans of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanFile {
    plans: BTreeMap<String, Plan>,
    /// The files that no step of any plan names, relative to the root of the repository.
    rest: Vec<String>,
}

impl PlanFile {
    /// Parses a plan file and checks all its plans. Errors are in the order of the text.
    pub fn read(file: &File, about: &Documents<'_>) -> Result<Self, Vec<PlanError>> {
        let document = document(file).map_err(|error| vec![error])?;
        let written = written(&document).map_err(|error| vec![error])?;
        let mut reader = Reader {
            document: &document,
            about,
            files: below(about),
            named: BTreeSet::new(),
            errors: Vec::new(),
        };
        let plans = reader.plans(&written.spec.plans);
        let rest = reader.rest().iter().map(|path| reader.origin(path)).collect();
        let mut errors = reader.errors;
        if errors.is_empty() {
            return Ok(Self { plans, rest });
        }
        errors.sort_by_key(|error| error.at);
        Err(errors)
    }

    /// The plan with this name.
    pub fn plan(&self, name: &str) -> Option<&Plan> {
        self.plans.get(name)
    }

    /// The files that no step of any plan names, relative to the root of the repository.
    pub fn rest(&self) -> &[String] {
        &self.rest
    }

    /// The names of the plans.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.plans.keys().map(String::as_str)
    }
}

/// The document as parsed, before it is resolved.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawPlanFile {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: serde::de::IgnoredAny,
    spec: RawSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawSpec {
    plans: BTreeMap<String, RawPlan>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawPlan {
    #[serde(default)]
    strategy: Strategy,
    #[serde(default)]
    phases: Vec<RawPhase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawPhase {
    name: String,
    #[serde(default)]
    strategy: Strategy,
    #[serde(default)]
    steps: Vec<RawStep>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawStep {
    name: String,
    when: Option<String>,
    #[serde(default)]
    apply: Vec<String>,
    #[serde(default)]
    delete: Vec<Deleted>,
    timeout: Option<muster_api::duration::Duration>,
    #[serde(default)]
    retries: u32,
    #[serde(default)]
    on_failure: OnFailure,
}

/// The only document of the file, if it is a Plan.
fn document(file: &File) -> Result<Document, PlanError> {
    let path: Arc<str> = file.path.as_str().into();
    let error = |at, problem| PlanError {
        file: Arc::clone(&path),
        at,
        problem: Box::new(problem),
    };
    let start = Position { line: 1, column: 1 };
    let mut documents = yaml::documents(&file.path, &file.bytes).map_err(|wrong| unreadable(&wrong))?;
    match documents.len() {
        1 => {}
        count => return Err(error(start, PlanProblem::NotAPlan(format!("{count} documents")))),
    }
    let document = documents.remove(0);
    let text = |field| document.root.get(field).and_then(|node| node.text());
    match (text("apiVersion"), text("kind")) {
        (Some(API_VERSION), Some(KIND)) => Ok(document),
        (api_version, kind) => {
            let is = format!(
                "{} of {}",
                kind.unwrap_or("no kind"),
                api_version.unwrap_or("no apiVersion")
            );
            Err(error(document.root.at, PlanProblem::NotAPlan(is)))
        }
    }
}

fn unreadable(error: &YamlError) -> PlanError {
    PlanError {
        file: Arc::clone(&error.file),
        at: error.at,
        problem: Box::new(PlanProblem::Shape {
            field: "the document".to_owned(),
            why: error.problem.to_string(),
        }),
    }
}

fn written(document: &Document) -> Result<RawPlanFile, PlanError> {
    let value = document.value().map_err(|error| unreadable(&error))?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let keys: Vec<Key<'_>> = error.path().iter().filter_map(Key::of).collect();
        PlanError {
            file: Arc::clone(&document.file),
            at: position_of(&document.root, &keys),
            problem: Box::new(PlanProblem::Shape {
                field: error.path().to_string(),
                why: error.inner().to_string(),
            }),
        }
    })
}

/// A step of a field path.
#[derive(Clone, Copy)]
enum Key<'a> {
    Name(&'a str),
    Item(usize),
}

impl<'a> Key<'a> {
    fn of(segment: &'a Segment) -> Option<Self> {
        match segment {
            Segment::Seq { index } => Some(Self::Item(*index)),
            Segment::Map { key } => Some(Self::Name(key)),
            Segment::Enum { .. } | Segment::Unknown => None,
        }
    }
}

/// The position of a field, or of its innermost existing parent.
fn position_of(root: &Node, path: &[Key<'_>]) -> Position {
    let mut node = root;
    for key in path {
        let next = match (key, &node.kind) {
            (Key::Name(name), _) => node.get(name),
            (Key::Item(index), Kind::Sequence(items)) => items.get(*index),
            (Key::Item(_), Kind::Scalar(_) | Kind::Mapping(_)) => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    node.at
}

/// The directory as a prefix of file paths.
fn directory<'a>(about: &Documents<'a>) -> &'a str {
    let directory = about.directory.trim_start_matches("./").trim_matches('/');
    if directory == "." { "" } else { directory }
}

/// The files that contain objects, by path relative to the directory, each with its objects.
fn below<'a>(about: &Documents<'a>) -> BTreeMap<String, Vec<&'a Manifest>> {
    let directory = directory(about);
    let mut files: BTreeMap<String, Vec<&Manifest>> = BTreeMap::new();
    for manifest in about.manifests {
        let path: &str = &manifest.origin.file;
        let path = path.trim_start_matches("./").trim_start_matches('/');
        let path = path
            .strip_prefix(directory)
            .unwrap_or(path)
            .trim_start_matches('/');
        files.entry(path.to_owned()).or_default().push(manifest);
    }
    files
}

/// Resolves the parsed plans.
struct Reader<'a> {
    document: &'a Document,
    about: &'a Documents<'a>,
    files: BTreeMap<String, Vec<&'a Manifest>>,
    /// What the steps of all plans name.
    named: BTreeSet<String>,
    errors: Vec<PlanError>,
}

impl<'a> Reader<'a> {
    fn plans(&mut self, written: &BTreeMap<String, RawPlan>) -> BTreeMap<String, Plan> {
        if !written.contains_key(DEPLOY) {
            self.error(&["spec", "plans"].map(Key::Name), PlanProblem::NoDeploy);
        }
        self.named = self.files_named_by_steps(written);
        written
            .iter()
            .map(|(name, plan)| {
                let at = ["spec", "plans", name].map(Key::Name);
                self.name(&at, name);
                (name.clone(), self.plan(&at, name, plan))
            })
            .collect()
    }

    /// The files that steps name by patterns other than [`REST`].
    fn files_named_by_steps(&self, written: &BTreeMap<String, RawPlan>) -> BTreeSet<String> {
        let patterns = written
            .values()
            .flat_map(|plan| &plan.phases)
            .flat_map(|phase| &phase.steps)
            .flat_map(|step| &step.apply)
            .filter(|pattern| *pattern != REST)
            .filter_map(|pattern| matcher(pattern).ok());
        let matchers: Vec<GlobMatcher> = patterns.collect();
        let paths = self.files.keys();
        paths
            .filter(|path| matchers.iter().any(|one| one.is_match(path)))
            .cloned()
            .collect()
    }

    fn plan(&mut self, at: &[Key<'_>], name: &str, written: &RawPlan) -> Plan {
        let mut phases = Vec::new();
        let mut names = BTreeSet::new();
        let mut taken = BTreeMap::new();
        for (index, phase) in written.phases.iter().enumerate() {
            let at = join(at, &[Key::Name("phases"), Key::Item(index)]);
            self.item(&at, &phase.name, &mut names);
            phases.push(self.phase(&at, name, phase, &mut taken));
        }
        let plan = Plan {
            name: name.to_owned(),
            strategy: written.strategy,
            phases,
            deadline: None,
        };
        self.deletes(at, written, &plan);
        self.cycles(at, written, &plan);
        plan
    }

    fn phase(
        &mut self,
        at: &[Key<'_>],
        plan: &str,
        written: &RawPhase,
        taken: &mut BTreeMap<String, StepId>,
    ) -> Phase {
        let mut steps = Vec::new();
        let mut names = BTreeSet::new();
        for (index, step) in written.steps.iter().enumerate() {
            let at = join(at, &[Key::Name("steps"), Key::Item(index)]);
            self.item(&at, &step.name, &mut names);
            let id = StepId::new(&written.name, &step.name);
            if let Some(step) = self.step(&at, plan, &id, step, taken) {
                steps.push(step);
            }
        }
        Phase {
            name: written.name.clone(),
            strategy: written.strategy,
            steps,
        }
    }

    /// Resolves a step; `None` if its `when` excludes it.
    fn step(
        &mut self,
        at: &[Key<'_>],
        plan: &str,
        id: &StepId,
        written: &RawStep,
        taken: &mut BTreeMap<String, StepId>,
    ) -> Option<Step> {
        let runs = self.runs(at, written.when.as_deref());
        let mut apply = BTreeSet::new();
        for (index, pattern) in written.apply.iter().enumerate() {
            let at = join(at, &[Key::Name("apply"), Key::Item(index)]);
            for file in self.matching(&at, pattern) {
                match taken.get(&file) {
                    Some(first) if first != id => {
                        let (plan, first) = (plan.to_owned(), first.clone());
                        self.error(&at, PlanProblem::InTwoSteps { file, plan, first });
                    }
                    _ => {
                        taken.insert(file.clone(), id.clone());
                        apply.insert(file);
                    }
                }
            }
        }
        let timeout = self.timeout(at, written.timeout);
        runs.then(|| Step {
            name: written.name.clone(),
            digest: digest(apply.iter().flat_map(|path| &self.files[path]), &written.delete),
            apply: apply.iter().map(|path| self.origin(path)).collect(),
            delete: written.delete.clone(),
            timeout,
            retries: written.retries,
            on_failure: written.on_failure,
        })
    }

    /// Whether the step is part of the plan in this cluster.
    fn runs(&mut self, at: &[Key<'_>], when: Option<&str>) -> bool {
        let Some(when) = when else { return true };
        match substitute::expand(when, self.about.variables) {
            Ok(text) => !matches!(text.trim(), "" | "false" | "0"),
            Err(problem) => {
                self.error(&join(at, &[Key::Name("when")]), PlanProblem::When(problem));
                false
            }
        }
    }

    /// The path of a file in the directory, by the name in its source.
    fn origin(&self, path: &str) -> String {
        let manifests = self.files.get(path).and_then(|manifests| manifests.first());
        manifests.map_or_else(|| path.to_owned(), |manifest| manifest.origin.file.to_string())
    }

    /// The files that no step names.
    fn rest(&self) -> Vec<String> {
        let files = self.files.keys();
        files
            .filter(|path| !self.named.contains(*path))
            .cloned()
            .collect()
    }

    fn matching(&mut self, at: &[Key<'_>], pattern: &str) -> Vec<String> {
        if pattern == REST {
            return self.rest();
        }
        let matcher = match matcher(pattern) {
            Ok(matcher) => matcher,
            Err(problem) => {
                self.error(at, problem);
                return Vec::new();
            }
        };
        let found: Vec<String> = self
            .files
            .keys()
            .filter(|path| matcher.is_match(path))
            .cloned()
            .collect();
        if found.is_empty() {
            self.error(at, PlanProblem::NoFile(pattern.to_owned()));
        }
        found
    }

    fn timeout(&mut self, at: &[Key<'_>], written: Option<muster_api::duration::Duration>) -> Duration {
        let limit = self.about.timeout;
        let Some(timeout) = written else {
            return limit.map_or(TIMEOUT, |limit| limit.min(TIMEOUT));
        };
        let given = Duration::from_millis(timeout.as_millis());
        if let Some(limit) = limit.filter(|limit| given > *limit) {
            let limit = muster_api::duration::Duration::from_millis(
                u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            );
            self.error(
                &join(at, &[Key::Name("timeout")]),
                PlanProblem::Timeout { timeout, limit },
            );
        }
        given
    }

    /// Checks that no step deletes what another one applies.
    fn deletes(&mut self, at: &[Key<'_>], written: &RawPlan, plan: &Plan) {
        for (path, _, step) in steps(at, written) {
            for (index, object) in step.delete.iter().enumerate() {
                if let Some(by) = self.applied_by(plan, |manifest| is(manifest, object)) {
                    let at = join(&path, &[Key::Name("delete"), Key::Item(index)]);
                    let object = Box::new(object.clone());
                    self.error(&at, PlanProblem::Applied { object, by });
                }
            }
        }
    }

    /// Checks that no step applies an object whose Namespace or definition is applied by a later step.
    fn cycles(&mut self, at: &[Key<'_>], written: &RawPlan, plan: &Plan) {
        let mut order: BTreeMap<StepId, (usize, usize)> = BTreeMap::new();
        let mut brought: BTreeMap<String, StepId> = BTreeMap::new();
        for (number, phase) in plan.phases.iter().enumerate() {
            for (inner, step) in phase.steps.iter().enumerate() {
                let id = StepId::new(&phase.name, &step.name);
                let phase_number = if plan.strategy == Strategy::Serial {
                    number
                } else {
                    0
                };
                let step_number = if phase.strategy == Strategy::Serial {
                    inner
                } else {
                    0
                };
                for manifest in self.manifests(step) {
                    if let Some(what) = brings(manifest) {
                        brought.entry(what).or_insert_with(|| id.clone());
                    }
                }
                order.insert(id, (phase_number, step_number));
            }
        }
        for (path, phase, step) in steps(at, written) {
            let id = StepId::new(phase, &step.name);
            let Some(resolved) = plan_step(plan, &id) else {
                continue;
            };
            let late = self.manifests(resolved).into_iter().find_map(|manifest| {
                needs(manifest).into_iter().find_map(|needed| {
                    let later = brought.get(&needed).filter(|by| after(&order, by, &id))?;
                    Some(PlanProblem::Cycle {
                        object: manifest.identity().to_string(),
                        needed,
                        later: later.clone(),
                    })
                })
            });
            if let Some(problem) = late {
                self.error(&path, problem);
            }
        }
    }

    fn manifests(&self, step: &Step) -> Vec<&'a Manifest> {
        let of = |manifest: &&Manifest| step.apply.iter().any(|path| **path == *manifest.origin.file);
        self.about.manifests.iter().filter(of).collect()
    }

    fn applied_by(&self, plan: &Plan, wanted: impl Fn(&Manifest) -> bool) -> Option<StepId> {
        plan.phases.iter().find_map(|phase| {
            let step = phase
                .steps
                .iter()
                .find(|step| self.manifests(step).into_iter().any(&wanted))?;
            Some(StepId::new(&phase.name, &step.name))
        })
    }

    /// Checks a phase or a step: its name must be valid, and unique among its siblings.
    fn item(&mut self, at: &[Key<'_>], name: &str, names: &mut BTreeSet<String>) {
        let at = join(at, &[Key::Name("name")]);
        self.name(&at, name);
        if !names.insert(name.to_owned()) {
            self.error(&at, PlanProblem::Twice(name.to_owned()));
        }
    }

    fn name(&mut self, at: &[Key<'_>], name: &str) {
        if muster_api::validate::names::dns_label(name).is_err() {
            self.error(at, PlanProblem::Name(name.to_owned()));
        }
    }

    fn error(&mut self, at: &[Key<'_>], problem: PlanProblem) {
        self.errors.push(PlanError {
            file: Arc::clone(&self.document.file),
            at: position_of(&self.document.root, at),
            problem: Box::new(problem),
        });
    }
}

fn join<'a>(path: &[Key<'a>], further: &[Key<'a>]) -> Vec<Key<'a>> {
    [path, further].concat()
}

/// The steps as written, each with its path and its phase.
fn steps<'a>(at: &[Key<'a>], written: &'a RawPlan) -> Vec<(Vec<Key<'a>>, &'a str, &'a RawStep)> {
    let phases = written.phases.iter().enumerate();
    phases
        .flat_map(|(number, phase)| {
            let inner = phase.steps.iter().enumerate();
            inner.map(move |(index, step)| {
                let further = [
                    Key::Name("phases"),
                    Key::Item(number),
                    Key::Name("steps"),
                    Key::Item(index),
                ];
                (join(at, &further), phase.name.as_str(), step)
            })
        })
        .collect()
}

fn plan_step<'a>(plan: &'a Plan, id: &StepId) -> Option<&'a Step> {
    let phase = plan.phases.iter().find(|phase| phase.name == id.phase)?;
    phase.steps.iter().find(|step| step.name == id.step)
}

fn after(order: &BTreeMap<StepId, (usize, usize)>, one: &StepId, other: &StepId) -> bool {
    match (order.get(one), order.get(other)) {
        (Some(one_at), Some(other_at)) => {
            one_at.0 > other_at.0 || (one.phase == other.phase && one_at.1 > other_at.1)
        }
        _ => false,
    }
}

/// What else depends on the object: those in a Namespace, those of a kind.
fn brings(manifest: &Manifest) -> Option<String> {
    let identity = manifest.identity();
    match (identity.group.as_str(), identity.kind.as_str()) {
        ("", "Namespace") => Some(namespace(&identity.name)),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let text = |pointer| manifest.object.pointer(pointer).and_then(Value::as_str);
            Some(kind(text("/spec/group")?, text("/spec/names/kind")?))
        }
        _ => None,
    }
}

fn needs(manifest: &Manifest) -> Vec<String> {
    let identity = manifest.identity();
    let mut needs = vec![kind(&identity.group, &identity.kind)];
    if !identity.namespace.is_empty() {
        needs.push(namespace(&identity.namespace));
    }
    needs
}

fn namespace(name: &str) -> String {
    format!("Namespace {name}")
}

fn kind(group: &str, kind: &str) -> String {
    format!("the definition of {kind}.{group}")
}

fn is(manifest: &Manifest, object: &Deleted) -> bool {
    let identity = manifest.identity();
    let group = object.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    identity.group == group
        && identity.kind == object.kind
        && identity.name == object.name
        && identity.namespace == object.namespace
}

fn matcher(pattern: &str) -> Result<GlobMatcher, PlanProblem> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| PlanProblem::Pattern {
            pattern: pattern.to_owned(),
            why: error.kind().to_string(),
        })
}

/// The hash of what a step applies and deletes.
fn digest<'a>(applied: impl Iterator<Item = &'a &'a Manifest>, deleted: &[Deleted]) -> String {
    let applied = applied.map(|manifest| manifest.object.to_string());
    let deleted = deleted
        .iter()
        .map(|object| format!("{} {object}", object.api_version));
    let parts: Vec<String> = applied.chain(deleted).collect();
    sha256_hex(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

impl fmt::Display for PlanFile {
    /// The output of `muster build --plan`: every plan, and each step with what it applies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plans.values().try_for_each(|plan| write!(f, "{plan}"))
    }
}
