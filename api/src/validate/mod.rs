//! Validates a module's spec without access to a cluster.
//!
//! An API server with muster's CRDs rejects most of this earlier; a Module that was stored before, or elsewhere,
//! becomes Stalled with these messages.

pub mod bindings;
pub mod flux;
pub mod gates;
pub mod git;
pub mod json_path;

use std::{collections::BTreeSet, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::{
    duration::Duration,
    module::ModuleSpec,
    schema::MAX_ROW,
    selector::{Matcher, SelectorError},
    sync::{GitSource, HealthExpression, MAX_EXPRESSIONS, Package, SETTLE_MAX, Source, VerifyMode},
};

pub use crate::name_syntax as names;
pub use crate::name_syntax::NameError;
pub use bindings::BindingError;
pub use flux::FluxError;
pub use gates::GateError;
pub use git::{InsecureSources, PathError, UrlError, Version, VersionError};
pub use json_path::JsonPathError;

/// An error in a spec, and the field that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Path of the field, starting at `metadata` or `spec`.
    pub field: String,
    /// What is wrong with the field.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An invalid selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// An invalid version.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// An invalid URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// An invalid path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// An invalid binding.
    #[error(transparent)]
    Binding(#[from] BindingError),
    /// The sync is larger than a row of an assemblage may be.
    #[error(
        "it has {0} bytes as JSON, and a row of an assemblage has at most {MAX_ROW}: reduce its bindings and substitutions, or move settings of package.flux into files of the source"
    )]
    RowTooLarge(usize),
    /// An unsupported or invalid field of Flux.
    #[error(transparent)]
    Flux(#[from] FluxError),
    /// An invalid gate.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// An invalid name.
    #[error("{name:?} is not a valid name: {error}")]
    Name {
        /// The rejected name.
        name: String,
        /// What is wrong with the name.
        error: NameError,
    },
    /// Tag verification without a tag.
    #[error("mode Tag needs version.tag: a commit has no tag that could be signed; write mode: Commit")]
    VerifyTag,
    /// `settle` is too long for the timeout.
    #[error(
        "settle is {settle}: it must be at most {SETTLE_MAX}, and shorter than timeout, which is {timeout}"
    )]
    Settle {
        /// `sync.package.settle`.
        settle: Duration,
        /// `sync.package.timeout`.
        timeout: Duration,
    },
    /// Two health expressions for the same kind.
    #[error("{kind} of group {group:?} has two entries with expressions: combine them in one entry")]
    ExpressionsTwice {
        /// API group of the kind.
        group: String,
        /// The kind.
        kind: String,
    },
    /// The health expressions exceed the size limit of a package.
    #[error("the expressions total {0} bytes: write at most {MAX_EXPRESSIONS}")]
    ExpressionsTooLarge(usize),
    /// Deadlines that no cluster can meet.
    #[error(
        "rollout.deadlines.progress is {progress}, and one attempt (timeout {timeout}) plus one retry (retryInterval {retry_interval}) takes as long: raise the deadline or shorten the others"
    )]
    Deadline {
        /// `rollout.deadlines.progress`.
        progress: Duration,
        /// `sync.package.timeout`.
        timeout: Duration,
        /// `sync.package.retryInterval`.
        retry_interval: Duration,
    },
    /// The total deadline ends before the progress deadline of the first step.
    #[error(
        "rollout.deadlines.total is {total}, less than rollout.deadlines.progress ({progress}), which is the deadline of one step"
    )]
    Total {
        /// `rollout.deadlines.total`.
        total: Duration,
        /// `rollout.deadlines.progress`.
        progress: Duration,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// All errors of a module with the given name, in the order of its fields; empty if it is valid.
pub fn validate_module(name: &str, spec: &ModuleSpec, insecure: InsecureSources) -> Vec<Invalid> {
    let mut found = Problems::default();
    found.name("metadata.name", name, names::dns_label);
    found.selector("spec.selector", spec.selector.as_ref());
    if let Source::Git(git) = &spec.sync.source {
        found.source("spec.sync.source.git", git, insecure);
    }
    let (source, package) = (&spec.sync.source, &spec.sync.package);
    found.package("spec.sync.package", package);
    found.flux(
        source,
        package,
        "spec.sync.source.flux",
        "spec.sync.package",
        insecure,
    );
    // Each row contains the complete sync, and more.
    let size = serde_json::to_vec(&spec.sync).map_or(0, |bytes| bytes.len());
    if size > MAX_ROW {
        found.check("spec.sync", Err::<(), _>(Problem::RowTooLarge(size)));
    }
    bindings::check(&mut found, &spec.sync.bindings, &spec.control_plane_bindings);
    found.rollout(spec, insecure);
    found.0
}

/// All errors of a module's gates, for callers that know whether insecure URLs are allowed for gates.
pub fn gates(spec: &ModuleSpec, insecure: InsecureSources) -> Vec<Invalid> {
    let mut found = Problems::default();
    found.gates(spec, insecure);
    found.0
}

/// Checks health expressions as far as possible without parsing them.
fn health_expressions(each: &[HealthExpression]) -> Result<(), Problem> {
    let mut kinds = BTreeSet::new();
    for expression in each {
        let (group, kind) = expression.group_kind();
        if !kinds.insert((group, kind)) {
            return Err(Problem::ExpressionsTwice {
                group: group.to_owned(),
                kind: kind.to_owned(),
            });
        }
    }
    match each.iter().map(HealthExpression::size).sum() {
        size if size > MAX_EXPRESSIONS => Err(Problem::ExpressionsTooLarge(size)),
        _ => Ok(()),
    }
}

/// One message for several errors: the first one in full, then the number of others.
pub fn message(findings: &[Invalid]) -> String {
    match findings {
        [] => String::new(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// The errors found so far.
#[derive(Default)]
struct Problems(Vec<Invalid>);

impl Problems {
    fn check<T, E: Into<Problem>>(&mut self, field: impl Into<String>, result: Result<T, E>) {
        if let Err(error) = result {
            self.0.push(Invalid {
                field: field.into(),
                problem: error.into(),
            });
        }
    }

    fn name(&mut self, field: impl Into<String>, name: &str, grammar: fn(&str) -> Result<(), NameError>) {
        let problem = |error| Problem::Name {
            name: name.to_owned(),
            error,
        };
        self.check(field, grammar(name).map_err(problem));
    }

    fn selector(&mut self, field: &str, selector: Option<&LabelSelector>) {
        self.check(field, Matcher::new(selector));
    }

    fn source(&mut self, field: &str, source: &GitSource, insecure: InsecureSources) {
        self.check(format!("{field}.url"), git::url(&source.url, insecure));
        self.check(format!("{field}.version"), git::version(&source.version));
        let secret = source.secret_ref.as_ref().map(|secret| &secret.name);
        let proxy = source.proxy_secret_ref.as_ref().map(|secret| &secret.name);
        for (key, name) in [("secretRef", secret), ("proxySecretRef", proxy)] {
            if let Some(name) = name {
                self.name(format!("{field}.{key}.name"), name, names::dns_subdomain);
            }
        }
        if source.secret_ref.is_none() && git::needs_secret(&source.url) {
            self.check(format!("{field}.secretRef"), Err::<(), _>(UrlError::NoSecret));
        }
        if source.proxy_secret_ref.is_some() && git::needs_secret(&source.url) {
            self.check(
                format!("{field}.proxySecretRef"),
                Err::<(), _>(UrlError::ProxyOverSsh),
            );
        }
        if let Some(verify) = &source.verify {
            let keys = &verify.secret_ref.name;
            self.name(
                format!("{field}.verify.secretRef.name"),
                keys,
                names::dns_subdomain,
            );
            if verify.mode == VerifyMode::Tag && source.version.tag.is_none() {
                self.check(format!("{field}.verify.mode"), Err::<(), _>(Problem::VerifyTag));
            }
        }
    }

    fn package(&mut self, field: &str, package: &Package) {
        self.check(format!("{field}.path"), git::path(&package.path));
        for variable in package.substitute.keys() {
            self.name(format!("{field}.substitute"), variable, names::variable);
        }
        // A namespace that comes from a binding is known only for a specific cluster.
        if let Some(namespace) = package
            .target_namespace
            .as_ref()
            .filter(|text| !text.contains("$("))
        {
            self.name(format!("{field}.targetNamespace"), namespace, names::dns_label);
        }
        let timeout = package.timeout;
        if let Some(settle) = package
            .settle
            .filter(|settle| *settle > SETTLE_MAX || *settle >= timeout)
        {
            let problem = Problem::Settle { settle, timeout };
            self.check(format!("{field}.settle"), Err::<(), _>(problem));
        }
        self.check(
            format!("{field}.healthExpressions"),
            health_expressions(&package.health_expressions),
        );
    }

    fn rollout(&mut self, spec: &ModuleSpec, insecure: InsecureSources) {
        let rollout = &spec.rollout;
        if let Some(key) = &rollout.exclusive {
            self.name("spec.rollout.exclusive", key, names::label_key);
        }
        for (index, stage) in rollout.stages.iter().enumerate() {
            let field = format!("spec.rollout.stages[{index}]");
            self.name(format!("{field}.name"), &stage.name, names::dns_label);
            self.selector(&format!("{field}.selector"), Some(&stage.selector));
        }
        self.gates(spec, insecure);
        self.check("spec.rollout.deadlines.progress", deadline(spec));
        self.check("spec.rollout.deadlines.total", total(spec));
    }

    fn gates(&mut self, spec: &ModuleSpec, insecure: InsecureSources) {
        for (index, stage) in spec.rollout.stages.iter().enumerate() {
            let field = format!("spec.rollout.stages[{index}]");
            gates::check(self, &field, &stage.gates, insecure);
        }
    }
}

fn total(spec: &ModuleSpec) -> Result<(), Problem> {
    let deadlines = spec.rollout.deadlines;
    match deadlines.total {
        Some(total) if total.as_millis() < deadlines.progress.as_millis() => Err(Problem::Total {
            total,
            progress: deadlines.progress,
        }),
        Some(_) | None => Ok(()),
    }
}

fn deadline(spec: &ModuleSpec) -> Result<(), Problem> {
    let progress = spec.rollout.deadlines.progress;
    let Package {
        timeout,
        retry_interval,
        ..
    } = spec.sync.package;
    if timeout.as_millis().saturating_add(retry_interval.as_millis()) < progress.as_millis() {
        Ok(())
    } else {
        Err(Problem::Deadline {
            progress,
            timeout,
            retry_interval,
        })
    }
}
