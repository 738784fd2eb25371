//! What is wrong with the files.

use std::fmt;

use super::{Identity, NameProblem, Origin};
use crate::substitute::{SubstituteError, SubstituteProblem};
use crate::yaml::{Position, YamlError};

/// One thing that is wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The text cannot be read.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A substitution failed.
    #[error(transparent)]
    Substitute(#[from] SubstituteError),
    /// The variables cannot be used at all.
    #[error("postBuild: {0}")]
    Variables(SubstituteProblem),
    /// Not an object that could be applied.
    #[error("{origin}: {field} {why}")]
    Field {
        /// Where the object is written.
        origin: Origin,
        /// The field.
        field: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An object that no API server can have.
    #[error("{origin}: {field} {text:?} {problem}")]
    Name {
        /// Where the field is written.
        origin: Origin,
        /// The field.
        field: &'static str,
        /// What it says.
        text: String,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// Two objects of one identity.
    #[error(transparent)]
    Duplicate(Box<Duplicate>),
}

impl BuildError {
    /// Where to look first: the file and the place in it.
    fn place(&self) -> Option<(&str, Position)> {
        Some(match self {
            Self::Yaml(error) => (&error.file, error.at),
            Self::Substitute(error) => (&error.file, error.at),
            Self::Variables(_) => return None,
            Self::Field { origin, .. } | Self::Name { origin, .. } => (&origin.file, origin.at),
            Self::Duplicate(twins) => (&twins.second.file, twins.second.at),
        })
    }
}

/// Two objects of one identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{second}: {identity} is defined already at {first}; remove one of them, or give it another name or namespace"
)]
pub struct Duplicate {
    /// What they both are.
    pub identity: Identity,
    /// The earlier place.
    pub first: Origin,
    /// The later place.
    pub second: Origin,
}

/// All that is wrong, in the order of the files; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildErrors(Vec<BuildError>);

impl BuildErrors {
    /// Puts them in order.
    pub(super) fn unless_empty(mut errors: Vec<BuildError>) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by(|a, b| a.place().cmp(&b.place()));
        Err(Self(errors))
    }

    /// Whether all that is wrong are names that inventories cannot record: the objects themselves are fine.
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
    /// The first one, and how many there are besides.
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
