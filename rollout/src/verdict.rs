//! The verdict about a revision.

use serde::{Deserialize, Serialize};

/// The verdict about a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// Every eligible selected unit was confirmed at it.
    Good,
    /// More units failed on it than `maxFailed` allows.
    Bad,
}
