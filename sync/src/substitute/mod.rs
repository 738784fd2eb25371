//! Variable substitution on parsed scalars.
//!
//! Flux's `postBuild.substitute`: same syntax, same results ([`expand`]), on scalars and keys instead of text, so that a value can
//! never inject structure. A plain scalar is resolved again afterwards (`${N}` may become a number); a quoted one stays text.
//!
//! Invariant: no error carries the value of a variable, which may come from a Secret.

mod expand;
mod glob;
mod operation;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::yaml::{Document, Position};

pub use self::expand::expand;

/// Label or annotation that keeps an object as it is written, with the value [`DISABLED`].
pub const CONTROL: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// The value of [`CONTROL`].
pub const DISABLED: &str = "disabled";

/// Variables that were checked: names are names, values have no line feeds (Flux removes them).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Checks the names and removes line feeds from the values.
    pub fn new(variables: &BTreeMap<String, String>) -> Result<Self, SubstituteProblem> {
        let mut checked = BTreeMap::new();
        for (name, value) in variables {
            if !is_name(name) {
                return Err(SubstituteProblem::InvalidName { name: name.clone() });
            }
            checked.insert(name.clone(), value.replace('\n', ""));
        }
        Ok(Self(checked))
    }

    /// Without any, nothing is substituted, not even `$$`.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.0.keys().map(String::as_str).take(10).collect();
        let more = self.0.len().saturating_sub(names.len());
        if more == 0 {
            names.join(", ")
        } else {
            format!("{} and {more} more", names.join(", "))
        }
    }
}

impl std::fmt::Debug for Variables {
    /// Names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A substitution that failed: `file:line:column: what`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{at}: {problem}")]
pub struct SubstituteError {
    /// The file.
    pub file: Arc<str>,
    /// Where the scalar starts.
    pub at: Position,
    /// What is wrong.
    pub problem: SubstituteProblem,
}

/// What is wrong with a substitution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstituteProblem {
    /// A variable of the Kustomization has a name that cannot be written in `${}`.
    #[error("variable name {name:?} is invalid: letters, digits and _ are needed, no digit first")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// No value and no default.
    #[error("variable {name} is not set and has no default (known: {known}); write $${{ for a literal ${{")]
    Unknown {
        /// The name.
        name: String,
        /// The names that are set.
        known: String,
    },
    /// A form that bash has and Flux's substitution lacks, or gets wrong.
    #[error("{form} is not supported in {expression:?}; {next}")]
    Unsupported {
        /// The form.
        form: &'static str,
        /// The text.
        expression: String,
        /// What to do.
        next: &'static str,
    },
    /// No substitution at all.
    #[error("{expression:?} is no substitution: {why}; write $${{ for a literal ${{")]
    Malformed {
        /// The text.
        expression: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Offsets count bytes.
    #[error("{expression:?} cuts the value of {name} inside a character; offsets and lengths count bytes")]
    CutsCharacter {
        /// The variable.
        name: String,
        /// The text.
        expression: String,
    },
    /// Substitutions in substitutions.
    #[error("substitutions are nested deeper than {0}")]
    TooDeep(usize),
}

/// A document with all its scalars and keys expanded.
pub fn document(document: &Document, variables: &Variables) -> Result<Document, SubstituteError> {
    if variables.is_empty() {
        return Ok(document.clone());
    }
    document.map_scalars(&mut |scalar, at| {
        if !scalar.text.contains('$') {
            return Ok(None);
        }
        let expanded = expand(&scalar.text, variables);
        expanded.map(Some).map_err(|problem| SubstituteError {
            file: Arc::clone(&document.file),
            at,
            problem,
        })
    })
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
