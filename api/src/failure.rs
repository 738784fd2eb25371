//! What a failure is attributed to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a failure is attributed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FailureClass {
    /// The revision: the build fails, objects are rejected or unhealthy.
    Revision,
    /// This cluster: quota, permissions, a missing namespace or value.
    Unit,
    /// The infrastructure: an API, a source or a dependency is unavailable.
    Infra,
}
