//! Validates a NodeModule as far as possible without a cluster. An API server with muster's CRDs rejects some of this
//! earlier.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::json;
use thiserror::Error;

use super::{
    content::{FileState, MAX_CONTENT, NodeContent, NodeFile},
    module::NodeModuleSpec,
    render::{NODE_LABEL, NODE_NAME, SECRET},
};
use crate::{
    duration::Duration,
    name_syntax::{self as names, NameError},
    selector::{Matcher, SelectorError},
    template::{self, Part},
};

/// The shortest and the longest `confirmWithin`.
const CONFIRM: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(1));

/// An invalid field of a NodeModule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// Path of the field, starting at `metadata` or `spec`.
    pub field: String,
    /// What is wrong with the field.
    pub problem: NodeProblem,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeProblem {
    /// An invalid name.
    #[error("{0}")]
    Name(NameError),
    /// An invalid selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// An invalid file path.
    #[error("{path:?} {problem}")]
    Path {
        /// The rejected path.
        path: String,
        /// What is wrong with the path.
        problem: PathProblem,
    },
    /// The same name or path occurs twice in a list.
    #[error("{0} occurs twice")]
    Twice(String),
    /// A file below another file.
    #[error("{path} is below {parent}, which is a file of this NodeModule")]
    BelowFile {
        /// The rejected path.
        path: String,
        /// Path of the file above it.
        parent: String,
    },
    /// Invalid file mode.
    #[error("{0:?} is not four octal digits, the first of which is 0")]
    Mode(String),
    /// A present file without content.
    #[error("is required: \"\" is an empty file")]
    NoContent,
    /// Content for an absent file.
    #[error("a file with state Absent must not have content")]
    ContentOfAbsent,
    /// `$(` without a name and `)`.
    #[error("has $( without a name and ): write $$( for the characters $(")]
    Unterminated,
    /// An unknown variable.
    #[error(
        "uses $({0}), which is neither built in ({NODE_NAME}, {NODE_LABEL}<key>, {SECRET}<name>) nor a binding"
    )]
    UnknownVariable(String),
    /// `confirmWithin` out of range.
    #[error("must be from {} to {}", CONFIRM.0, CONFIRM.1)]
    ConfirmWithin,
    /// Checks cannot pass for long enough within `confirmWithin`.
    #[error(
        "settle ({settle}) and holdFor ({hold_for}) together must be shorter than confirmWithin ({confirm_within}), or no change can be confirmed"
    )]
    NeverConfirmed {
        /// `spec.settle`.
        settle: Duration,
        /// `spec.holdFor`.
        hold_for: Duration,
        /// `spec.confirmWithin`.
        confirm_within: Duration,
    },
    /// The progress deadline ends before a node can restore its previous files.
    #[error(
        "must be more than twice as long as confirmWithin ({confirm_within}): a node restores what it had, and reports, within that time"
    )]
    Progress {
        /// `spec.confirmWithin`.
        confirm_within: Duration,
    },
    /// The content is larger than a NodeRevision allows.
    #[error("the total content is {0} bytes, more than {MAX_CONTENT}: split the NodeModule")]
    Size(usize),
}

/// Why a path is not a valid file path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathProblem {
    /// A relative path, or `/`.
    #[error("is not an absolute file path")]
    NotAbsolute,
    /// The path contains `$(`.
    #[error("contains a variable: paths must be the same on every node")]
    Variable,
    /// The path contains a control character.
    #[error("contains a control character")]
    Control,
    /// The path contains `//`, `.` or `..`.
    #[error("contains an empty segment, . or ..")]
    Part,
}

/// All validation errors of a NodeModule with this name.
pub fn validate_node_module(name: &str, spec: &NodeModuleSpec) -> Vec<InvalidField> {
    let mut found = NodeProblems(Vec::new());
    if let Err(error) = names::dns_label(name) {
        found.add("metadata.name", NodeProblem::Name(error));
    }
    found.selector("spec.selector", Matcher::new(spec.selector.as_ref()));
    times(spec, &mut found);
    for (number, part) in spec.content.parts.iter().enumerate() {
        let field = format!("spec.parts[{number}]");
        if part.selector.is_some() {
            found.selector(&format!("{field}.selector"), Matcher::new(part.selector.as_ref()));
        }
        let mut paths = BTreeSet::new();
        for (number, file) in part.files.iter().enumerate() {
            let field = format!("{field}.files[{number}]");
            if !paths.insert(&file.path) {
                found.add(format!("{field}.path"), NodeProblem::Twice(file.path.clone()));
            }
            check_file(&field, file, &spec.content, &mut found);
        }
    }
    nested(&spec.content, &mut found);
    let mut stages = BTreeSet::new();
    for (number, stage) in spec.rollout.stages.iter().enumerate() {
        let field = format!("spec.rollout.stages[{number}]");
        if !stages.insert(&stage.name) {
            found.add(format!("{field}.name"), NodeProblem::Twice(stage.name.clone()));
        }
        found.selector(&format!("{field}.selector"), Matcher::new(Some(&stage.selector)));
    }
    let size = json!(spec.content).to_string().len();
    if size > MAX_CONTENT {
        found.add("spec.parts", NodeProblem::Size(size));
    }
    found.0
}

struct NodeProblems(Vec<InvalidField>);

impl NodeProblems {
    fn add(&mut self, field: impl Into<String>, problem: NodeProblem) {
        let field = field.into();
        self.0.push(InvalidField { field, problem });
    }

    fn selector(&mut self, field: &str, matcher: Result<Matcher, SelectorError>) {
        if let Err(error) = matcher {
            self.add(field, error.into());
        }
    }
}

fn times(spec: &NodeModuleSpec, found: &mut NodeProblems) {
    let NodeContent {
        settle,
        hold_for,
        confirm_within,
        ..
    } = spec.content;
    if confirm_within < CONFIRM.0 || confirm_within > CONFIRM.1 {
        found.add("spec.confirmWithin", NodeProblem::ConfirmWithin);
    }
    if settle.as_millis().saturating_add(hold_for.as_millis()) >= confirm_within.as_millis() {
        found.add(
            "spec.confirmWithin",
            NodeProblem::NeverConfirmed {
                settle,
                hold_for,
                confirm_within,
            },
        );
    }
    let progress = spec.rollout.deadlines.progress.as_millis();
    if confirm_within.as_millis().saturating_mul(2) >= progress {
        found.add(
            "spec.rollout.deadlines.progress",
            NodeProblem::Progress { confirm_within },
        );
    }
}

fn check_file(field: &str, file: &NodeFile, content: &NodeContent, found: &mut NodeProblems) {
    if let Err(problem) = check_path(&file.path) {
        let path = file.path.clone();
        found.add(format!("{field}.path"), NodeProblem::Path { path, problem });
    }
    let octal = file.mode.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    if file.mode.len() != 4 || !file.mode.starts_with('0') || !octal {
        found.add(format!("{field}.mode"), NodeProblem::Mode(file.mode.clone()));
    }
    if let Err(problem) = check_content(file, content) {
        found.add(format!("{field}.content"), problem);
    }
}

fn check_content(file: &NodeFile, content: &NodeContent) -> Result<(), NodeProblem> {
    let text = match (file.state, &file.content) {
        (FileState::Present, Some(text)) => text,
        (FileState::Present, None) => return Err(NodeProblem::NoContent),
        (FileState::Absent, Some(_)) => return Err(NodeProblem::ContentOfAbsent),
        (FileState::Absent, None) => return Ok(()),
    };
    let parts = template::template_parts(text).map_err(|template::Unterminated| NodeProblem::Unterminated)?;
    for part in parts {
        match part {
            Part::Name(name) if !is_known(name, content) => {
                return Err(NodeProblem::UnknownVariable(name.to_owned()));
            }
            Part::Name(_) | Part::Text(_) => {}
        }
    }
    Ok(())
}

/// Which labels and secrets exist depends on the node, so only the prefixes of their variables are checked.
fn is_known(name: &str, content: &NodeContent) -> bool {
    let follows = |prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
    name == NODE_NAME
        || follows(NODE_LABEL)
        || follows(SECRET)
        || content.bindings.iter().any(|binding| binding.name == name)
}

/// Checks that a path is a valid file path.
pub fn check_path(path: &str) -> Result<(), PathProblem> {
    let parts = path.strip_prefix('/').filter(|rest| !rest.is_empty());
    let parts = parts.ok_or(PathProblem::NotAbsolute)?;
    if path.contains("$(") {
        return Err(PathProblem::Variable);
    }
    if path.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(PathProblem::Control);
    }
    if parts.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(PathProblem::Part);
    }
    Ok(())
}

/// Reports a file below another file, which can never be written.
fn nested(content: &NodeContent, found: &mut NodeProblems) {
    let mut fields = BTreeMap::new();
    for (part, of) in content.parts.iter().enumerate() {
        for (file, of) in of.files.iter().enumerate() {
            fields.insert(of.path.as_str(), format!("spec.parts[{part}].files[{file}].path"));
        }
    }
    for (path, field) in &fields {
        if let Some(parent) = parents(path).find(|parent| fields.contains_key(parent)) {
            let (path, parent) = ((*path).to_owned(), parent.to_owned());
            found.add(field.clone(), NodeProblem::BelowFile { path, parent });
        }
    }
}

/// The parent paths of a path, the nearest first.
pub fn parents(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let at = rest.rfind('/').filter(|at| *at > 0)?;
        rest = &rest[..at];
        Some(rest)
    })
}
