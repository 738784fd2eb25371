//! What a process counts of itself.

/// A handle to what a process counts. Cheap to clone; clones count into the same.
#[derive(Clone, Debug, Default)]
pub struct Metrics;
