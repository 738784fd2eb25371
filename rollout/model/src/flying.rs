//! Writes of rows on their way.

use muster_driver::Tested;

use crate::set::Set;

/// A write of a row on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flying {
    /// The cluster.
    pub cluster: usize,
    /// The life for which it was decided.
    pub life: u8,
    /// What is written, on the row that was seen.
    pub write: Tested,
    /// Who came back since the view that it was decided on.
    pub returned: Set,
    /// Its cluster was confirmed since.
    pub confirmed: bool,
}
