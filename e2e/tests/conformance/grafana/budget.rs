//! Tables of the budget, the command line and the installation.

use crate::registry::Table;

pub const TABLES: &[Table] = &[];
