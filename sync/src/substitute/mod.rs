//! Variable substitution on parsed scalars.
