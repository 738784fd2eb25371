//! What can be wrong, each with a code that stays: `docs/lint.md` has a chapter for every one.

use std::sync::Arc;

use muster_sync::{
    substitute::SubstituteError,
    yaml::{Document, Position, YamlError},
};

use super::place;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It will be refused, or never do what it says.
    Error,
    /// It will work, but probably not as it is meant.
    Warning,
    /// It works; something else may be better.
    Info,
}

impl Level {
    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// One thing that can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Not readable as YAML.
    Yaml,
    /// Written more than once.
    Twice,
    /// A kind of our group that there is not.
    UnknownKind,
    /// A field that nobody knows.
    UnknownField,
    /// What the definition does not allow.
    Definition,
    /// What the definition allows, and muster cannot do.
    Impossible,
    /// A dependency that is not here.
    MissingDependency,
    /// Dependencies that go round.
    Cycle,
    /// No cluster is selected.
    SelectsNothing,
    /// A stage without clusters.
    EmptyStage,
    /// Nothing would stop a bad version.
    AllAtOnce,
    /// An address without TLS.
    Insecure,
    /// Two modules that bring the same objects.
    SharedObjects,
    /// A kind whose health may count without evidence.
    NoEvidence,
    /// A workload that is healthy before its pods run the new version.
    OnDelete,
    /// A kind that the table of health has and its module does not ask for.
    HealthTable,
    /// An expression of health that does not parse.
    Expression,
    /// Two NodeModules that write the same path.
    PathConflict,
    /// A plan that cannot be carried out.
    Plan,
    /// A Secret with its values.
    PlainSecret,
}

impl Code {
    /// Every code, in the order of their numbers.
    #[cfg(test)]
    pub const ALL: [Self; 20] = [
        Self::Yaml,
        Self::Twice,
        Self::UnknownKind,
        Self::UnknownField,
        Self::Definition,
        Self::Impossible,
        Self::MissingDependency,
        Self::Cycle,
        Self::SelectsNothing,
        Self::EmptyStage,
        Self::AllAtOnce,
        Self::Insecure,
        Self::SharedObjects,
        Self::NoEvidence,
        Self::OnDelete,
        Self::HealthTable,
        Self::Expression,
        Self::PathConflict,
        Self::Plan,
        Self::PlainSecret,
    ];

    /// The code, which never gets another meaning.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Yaml => "MST0001",
            Self::Twice => "MST0002",
            Self::UnknownKind => "MST0101",
            Self::UnknownField => "MST0102",
            Self::Definition => "MST0103",
            Self::Impossible => "MST0104",
            Self::MissingDependency => "MST0201",
            Self::Cycle => "MST0202",
            Self::SelectsNothing => "MST0301",
            Self::EmptyStage => "MST0302",
            Self::AllAtOnce => "MST0303",
            Self::Insecure => "MST0304",
            Self::SharedObjects => "MST0305",
            Self::NoEvidence => "MST0306",
            Self::OnDelete => "MST0307",
            Self::HealthTable => "MST0308",
            Self::Expression => "MST0309",
            Self::PathConflict => "MST0310",
            Self::Plan => "MST0311",
            Self::PlainSecret => "MST0401",
        }
    }

    /// How bad it is.
    pub const fn level(self) -> Level {
        match self {
            Self::Yaml
            | Self::Twice
            | Self::UnknownKind
            | Self::UnknownField
            | Self::Definition
            | Self::Impossible
            | Self::Cycle
            | Self::Expression
            | Self::Plan => Level::Error,
            Self::MissingDependency
            | Self::SelectsNothing
            | Self::EmptyStage
            | Self::AllAtOnce
            | Self::Insecure
            | Self::SharedObjects
            | Self::NoEvidence
            | Self::OnDelete
            | Self::PathConflict
            | Self::PlainSecret => Level::Warning,
            Self::HealthTable => Level::Info,
        }
    }

    /// What to do.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Yaml => "mend the text: kubectl would refuse it, too",
            Self::Twice => "remove one of the two: the one that is applied last would win",
            Self::UnknownKind => "write the kind as kubectl api-resources --api-group fleet.muster.dev does",
            Self::UnknownField => "remove it, or write it as kubectl explain does",
            Self::Definition => "write what the definition allows: kubectl explain modules.spec --recursive",
            Self::Impossible => "write what the message says",
            Self::MissingDependency => {
                "add the module, correct the name, or leave it if the module is applied from elsewhere"
            }
            Self::Cycle => "take one of the dependencies out",
            Self::SelectsNothing => "correct the selector, or the labels of the Clusters",
            Self::EmptyStage => {
                "correct the stage's selector, or take the stage out: while none of the selected clusters is of it, nothing moves"
            }
            Self::AllAtOnce => {
                "give a limit (maxUnreadyClusters: 25%) or stages, so that a bad version is found by few clusters"
            }
            Self::Insecure => {
                "use https: the controller refuses this address unless it runs with --allow-insecure-sources"
            }
            Self::SharedObjects => {
                "let one module have the objects and the other depend on it, or select different clusters: only one of them applies an object, \
                 and where they differ the other one is not confirmed"
            }
            Self::NoEvidence => {
                "let its controller report observedGeneration, in its status or in its condition Ready; or say in package.settle how long it must \
                 stay healthy, and in package.assume whether that is enough"
            }
            Self::OnDelete => {
                "annotate it with fleet.muster.dev/wait-for-pods: \"true\" to wait until its pods are replaced, or use RollingUpdate"
            }
            Self::HealthTable => {
                "set spec.sync.package.healthTable: v1 (docs/health.md), or write healthExpressions for the kind; either is a change of the package"
            }
            Self::Expression => {
                "correct the expression: muster build --health FILE tries it on recorded objects"
            }
            Self::PathConflict => {
                "let one NodeModule have the path, or select different nodes: on a node that both select, neither is assigned"
            }
            Self::Plan => "correct the plan: muster build FOLDER --plan NAME prints what it comes to",
            Self::PlainSecret => "keep values out of git: encrypt them, or let an operator make the Secret",
        }
    }
}

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub code: Code,
    /// The file.
    pub file: Arc<str>,
    /// The place in it.
    pub at: Position,
    /// The object, as kubectl has it: `module/podinfo`; none for a text that is none.
    pub object: Option<String>,
    /// The sentence.
    pub message: String,
}

impl Finding {
    /// About a field of an object, or about the whole object if the field is not there.
    pub fn about(code: Code, document: &Document, object: &str, field: &str, message: String) -> Self {
        Self {
            code,
            file: Arc::clone(&document.file),
            at: place::of(&document.root, field),
            object: Some(object.to_owned()),
            message,
        }
    }

    /// A variable that cannot be put in.
    pub fn not_substituted(error: &SubstituteError) -> Self {
        Self {
            code: Code::Yaml,
            file: Arc::clone(&error.file),
            at: error.at,
            object: None,
            message: error.problem.to_string(),
        }
    }

    /// A text that is no YAML.
    pub fn unreadable(error: &YamlError) -> Self {
        Self {
            code: Code::Yaml,
            file: Arc::clone(&error.file),
            at: error.at,
            object: None,
            message: error.problem.to_string(),
        }
    }
}
