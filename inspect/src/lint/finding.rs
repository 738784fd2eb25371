//! The findings of lint, each with a stable code: `docs/lint.md` has a chapter for each.

use std::sync::Arc;

use muster_sync::{
    substitute::SubstituteError,
    yaml::{Document, Position, YamlError},
};

use super::field_position;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It will be refused, or never work.
    Error,
    /// It will work, but probably not as intended.
    Warning,
    /// It works; something else may be better.
    Info,
}

impl Level {
    /// The severity as a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Invalid YAML.
    Yaml,
    /// An object is written more than once.
    Twice,
    /// An unknown kind of muster's API group.
    UnknownKind,
    /// An unknown field.
    UnknownField,
    /// A value that the definition does not allow.
    Definition,
    /// A value that the definition allows, and muster does not support.
    Impossible,
    /// A missing dependency.
    MissingDependency,
    /// A dependency cycle.
    Cycle,
    /// No cluster is selected.
    SelectsNothing,
    /// A stage without clusters.
    EmptyStage,
    /// A rollout without limits or stages: nothing would stop a bad version.
    AllAtOnce,
    /// A URL without TLS.
    Insecure,
    /// Two modules with the same objects.
    SharedObjects,
    /// A kind whose objects may count as healthy without evidence.
    NoEvidence,
    /// A workload that counts as healthy before its pods run the new version.
    OnDelete,
    /// A kind that is in the health table, while its module does not enable the table.
    HealthTable,
    /// An invalid health expression.
    Expression,
    /// Two NodeModules that write the same path.
    PathConflict,
    /// An invalid plan.
    Plan,
    /// A Secret with plain values.
    PlainSecret,
}

impl Code {
    /// All kinds, ordered by code.
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

    /// The code, which never changes its meaning.
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

    /// Its severity.
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

    /// Its remedy.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Yaml => "fix the text: kubectl would refuse it, too",
            Self::Twice => "remove one of the two: the one that is applied last would win",
            Self::UnknownKind => "write the kind as kubectl api-resources --api-group fleet.muster.dev does",
            Self::UnknownField => "remove it, or write it as kubectl explain does",
            Self::Definition => "write what the definition allows: kubectl explain modules.spec --recursive",
            Self::Impossible => "follow the message",
            Self::MissingDependency => {
                "add the module, correct the name, or leave it if the module is applied from elsewhere"
            }
            Self::Cycle => "remove one of the dependencies",
            Self::SelectsNothing => "correct the selector, or the labels of the Clusters",
            Self::EmptyStage => {
                "correct the stage's selector, or remove the stage: while no selected cluster is in it, the rollout does not proceed"
            }
            Self::AllAtOnce => {
                "give a limit (maxUnreadyClusters: 25%) or stages, so that a bad version reaches only few clusters"
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
            Self::Plan => "correct the plan: muster build DIRECTORY --plan NAME prints the result",
            Self::PlainSecret => "keep values out of git: encrypt them, or let an operator create the Secret",
        }
    }
}

/// A finding with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the finding.
    pub code: Code,
    /// Path of the file.
    pub file: Arc<str>,
    /// Position in the file.
    pub at: Position,
    /// The object in kubectl's form: `module/podinfo`; empty for text that is not an object.
    pub object: Option<String>,
    /// The message.
    pub message: String,
}

impl Finding {
    /// A finding about a field of an object, or about the whole object if the field is not set.
    pub fn about(code: Code, document: &Document, object: &str, field: &str, message: String) -> Self {
        Self {
            code,
            file: Arc::clone(&document.file),
            at: field_position::field_position(&document.root, field),
            object: Some(object.to_owned()),
            message,
        }
    }

    /// A variable that cannot be substituted.
    pub fn not_substituted(error: &SubstituteError) -> Self {
        Self {
            code: Code::Yaml,
            file: Arc::clone(&error.file),
            at: error.at,
            object: None,
            message: error.problem.to_string(),
        }
    }

    /// Text that is not valid YAML.
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
