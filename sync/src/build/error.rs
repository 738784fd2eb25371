//! What is wrong with the files.

use std::fmt;

use super::{Identity, Origin};
use crate::substitute::{SubstituteError, SubstituteProblem};
use crate::yaml::YamlError;

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
        field: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two objects of one identity.
    #[error(
        "{identity} is defined twice, at {first} and at {second}; remove one, or give it another name or namespace"
    )]
    Duplicate {
        /// What they both are.
        identity: Identity,
        /// The earlier place.
        first: Origin,
        /// The later place.
        second: Origin,
    },
}

/// All that is wrong; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildErrors {
    first: BuildError,
    more: Vec<BuildError>,
}

impl BuildErrors {
    pub(super) fn unless_empty(errors: Vec<BuildError>) -> Result<(), Self> {
        let mut errors = errors.into_iter();
        match errors.next() {
            None => Ok(()),
            Some(first) => Err(Self {
                first,
                more: errors.collect(),
            }),
        }
    }

    /// In the order of the files.
    pub fn iter(&self) -> impl Iterator<Item = &BuildError> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

impl From<BuildError> for BuildErrors {
    fn from(first: BuildError) -> Self {
        Self {
            first,
            more: Vec::new(),
        }
    }
}

impl fmt::Display for BuildErrors {
    /// The first one, and how many there are besides.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        match self.more.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for BuildErrors {}
