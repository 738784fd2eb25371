//! Variable substitution in parsed scalars.
//!
//! Flux's `postBuild.substitute`: same syntax, same results ([`expand`]), but on scalars and keys instead of the text
//! of the file, so that a value can never inject structure. The type of a plain scalar is resolved again afterwards
//! (`${N}` may become a number); a quoted one stays a string.
//!
//! Invariant: no error contains the value of a variable, which may come from a Secret, or any content of a Secret.

mod expand;
mod glob;
mod operation;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::yaml::{Document, Kind, Node, Position};

pub use self::expand::expand;

/// Label or annotation that disables substitution for an object, with the value [`DISABLED`].
pub const CONTROL: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// Maximum total size of the expanded texts of one document, in bytes: no API server accepts a larger object. A few
/// nested substitutions could expand a short value to terabytes.
pub const MAX_EXPANDED: usize = 3 << 20;

/// The value of [`CONTROL`].
pub const DISABLED: &str = "disabled";

/// Checked variables: names are valid, values have no newlines (Flux removes them).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Checks the names and removes newlines from the values.
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

    /// The values by name.
    pub const fn values(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// If there are no variables, nothing is substituted, not even `$$`.
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
    /// Shows only the names.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A substitution that failed: `file:line:column: what`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{at}: {problem}")]
pub struct SubstituteError {
    /// Name of the file.
    pub file: Arc<str>,
    /// Where the scalar starts.
    pub at: Position,
    /// What is wrong with the substitution.
    pub problem: SubstituteProblem,
}

/// What is wrong with a substitution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstituteProblem {
    /// The name of a variable in the Kustomization cannot be used in `${}`.
    #[error("variable name {name:?} is invalid: letters, digits and _ are needed, no digit first")]
    InvalidName {
        /// The invalid name.
        name: String,
    },
    /// The variable has no value, and the expression no default.
    #[error("variable {name} is not set and has no default (known: {known}); write $${{ for a literal ${{")]
    Unknown {
        /// Name of the variable.
        name: String,
        /// The names that are set.
        known: String,
    },
    /// A bash expression that Flux's substitution does not support, or evaluates wrongly.
    #[error("{form} is not supported in {expression:?}; {next}")]
    Unsupported {
        /// Description of the unsupported form.
        form: &'static str,
        /// The expression as written.
        expression: String,
        /// What the user should do.
        next: &'static str,
    },
    /// Not a valid substitution.
    #[error("{expression:?} is not a substitution: {why}; write $${{ for a literal ${{")]
    Malformed {
        /// The expression as written.
        expression: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A substring would split a character: offsets count bytes.
    #[error(
        "{expression:?} cuts the value of {name} inside a character; offsets, lengths and patterns count bytes"
    )]
    CutsCharacter {
        /// Name of the variable.
        name: String,
        /// The expression as written.
        expression: String,
    },
    /// Substitutions are nested too deeply.
    #[error("substitutions are nested deeper than {0}")]
    TooDeep(usize),
    /// The expanded text is too long.
    #[error("substitution expands to more than {MAX_EXPANDED} bytes in one document")]
    TooLong,
    /// A key without quotes that would become a merge key (`<<`).
    #[error("a key becomes <<, which merges mappings: no value may change the structure; quote the key")]
    Merge,
}

impl SubstituteProblem {
    /// The same problem without any text of the document, for a Secret: the location must suffice.
    fn without_text(self) -> Self {
        let hidden = || "${…}".to_owned();
        match self {
            Self::Unknown { known, .. } => Self::Unknown {
                name: hidden(),
                known,
            },
            Self::Unsupported { form, next, .. } => Self::Unsupported {
                form,
                expression: hidden(),
                next,
            },
            Self::Malformed { why, .. } => Self::Malformed {
                expression: hidden(),
                why,
            },
            Self::CutsCharacter { .. } => Self::CutsCharacter {
                name: hidden(),
                expression: hidden(),
            },
            other @ (Self::InvalidName { .. } | Self::TooDeep(_) | Self::TooLong | Self::Merge) => other,
        }
    }
}

/// A document with all its scalars and keys expanded.
pub fn document(document: &Document, variables: &Variables) -> Result<Document, SubstituteError> {
    if variables.is_empty() {
        return Ok(document.clone());
    }
    let is_secret = document.root.get("kind").and_then(|kind| kind.text()) == Some("Secret");
    let error = |at, problem: SubstituteProblem| SubstituteError {
        file: Arc::clone(&document.file),
        at,
        problem: if is_secret {
            problem.without_text()
        } else {
            problem
        },
    };
    let mut length = 0;
    let expanded = document.map_scalars(&mut |scalar, at| {
        if !scalar.text.contains('$') {
            return Ok(None);
        }
        let expanded = expand(&scalar.text, variables).and_then(|expanded| {
            length += expanded.len();
            if length > MAX_EXPANDED {
                return Err(SubstituteProblem::TooLong);
            }
            Ok(Some(expanded))
        });
        expanded.map_err(|problem| error(at, problem))
    })?;
    match new_merge(&document.root, &expanded.root) {
        Some(at) => Err(error(at, SubstituteProblem::Merge)),
        None => Ok(expanded),
    }
}

/// The first key that became a merge key through substitution.
fn new_merge(before: &Node, after: &Node) -> Option<Position> {
    match (&before.kind, &after.kind) {
        (Kind::Mapping(before), Kind::Mapping(after)) => {
            before.iter().zip(after).find_map(|(before, after)| {
                let made = merges(&after.0) && !merges(&before.0);
                made.then_some(after.0.at)
                    .or_else(|| new_merge(&before.1, &after.1))
            })
        }
        (Kind::Sequence(before), Kind::Sequence(after)) => before
            .iter()
            .zip(after)
            .find_map(|(before, after)| new_merge(before, after)),
        _ => None,
    }
}

fn merges(key: &Node) -> bool {
    matches!(&key.kind, Kind::Scalar(scalar) if scalar.plain && scalar.tag.is_none() && scalar.text == "<<")
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
