//! Tables of the rollout and of the model.

use crate::registry::Table;

pub const TABLES: &[Table] = &[];
