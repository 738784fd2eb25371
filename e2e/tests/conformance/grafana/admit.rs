//! Tables of admission and scaling.

use crate::registry::Table;

pub const TABLES: &[Table] = &[];
