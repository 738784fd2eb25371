//! Whose fault a failure is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FailureClass {
    /// The revision's: build, refused objects, health.
    Revision,
    /// This cluster's: quota, rights, a missing namespace or value.
    Unit,
    /// The infrastructure's: an API, a source or a dependency that is away.
    Infra,
}
