//! Errors in manifests.

use std::fmt;

use super::{Identity, NameProblem, Origin};
use crate::substitute::{SubstituteError, SubstituteProblem};
use crate::yaml::{Position, YamlError};

/// A problem, with its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The YAML is invalid.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A substitution failed.
    #[error(transparent)]
    Substitute(#[from] SubstituteError),
    /// The substitution variables are invalid.
    #[error("postBuild: {0}")]
    Variables(SubstituteProblem),
    /// Not a valid object.
    #[error("{origin}: {field} {why}")]
    Field {
        /// Where the object is in the files.
        origin: Origin,
        /// The invalid field.
        field: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An object that no API server accepts.
    #[error("{origin}: {field} {text:?} {problem}")]
    Name {
        /// Where the field is in the files.
        origin: Origin,
        /// The invalid field.
        field: &'static str,
        /// The value of the field.
        text: String,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// Two objects with the same identity.
    #[error(transparent)]
    Duplicate(Box<Duplicate>),
}

impl BuildError {
    /// The location to show first: file and position.
    fn location(&self) -> Option<(&str, Position)> {
        Some(match self {
            Self::Yaml(error) => (&error.file, error.at),
            Self::Substitute(error) => (&error.file, error.at),
            Self::Variables(_) => return None,
            Self::Field { origin, .. } | Self::Name { origin, .. } => (&origin.file, origin.at),
            Self::Duplicate(twins) => (&twins.second.file, twins.second.at),
        })
    }
}

/// Two objects with the same identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{second}: {identity} is defined already at {first}; remove one of them, or give it another name or namespace"
)]
pub struct Duplicate {
    /// Their common identity.
    pub identity: Identity,
    /// Where the first one is.
    pub first: Origin,
    /// Where the second one is.
    pub second: Origin,
}

/// All problems, in the order of the files; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildErrors(Vec<BuildError>);

impl BuildErrors {
    /// Sorts the problems.
    pub(super) fn unless_empty(mut errors: Vec<BuildError>) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by(|a, b| a.location().cmp(&b.location()));
        Err(Self(errors))
    }

    /// Whether all problems are names that cannot be recorded in an inventory: the objects themselves are valid.
    pub fn only_misread_names(&self) -> bool {
        let misread = |error: &BuildError| {
            matches!(
                error,
                BuildError::Name {
                    problem: NameProblem::Misread,
                    ..
                }
            )
        };
        self.0.iter().all(misread)
    }

    /// In the order of the files.
    pub fn iter(&self) -> std::slice::Iter<'_, BuildError> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a BuildErrors {
    type Item = &'a BuildError;
    type IntoIter = std::slice::Iter<'a, BuildError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<BuildError> for BuildErrors {
    fn from(error: BuildError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for BuildErrors {
    /// The first problem, and the number of others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.0.first() {
            write!(f, "{first}")?;
        }
        match self.0.len() {
            0 | 1 => Ok(()),
            all => write!(f, "; and {} more", all - 1),
        }
    }
}

impl std::error::Error for BuildErrors {}
