//! Pending writes of assignments.

use muster_driver::Tested;

use crate::set::Set;

/// A pending write of an assignment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PendingWrite {
    /// The cluster.
    pub cluster: usize,
    /// The incarnation that it was decided for.
    pub life: u8,
    /// The change, with the assignment that was read as its precondition.
    pub write: Tested,
    /// Clusters that returned since the view of the decision.
    pub returned: Set,
    /// The cluster was confirmed since.
    pub confirmed: bool,
}
