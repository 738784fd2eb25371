//! Evaluation of CEL: the rules of a schema on a value and its old value ([`run`]), and conditions of webhooks.
//!
//! Schema, new and old value are traversed here, because list types decide how old and new values correlate.

mod condition;
mod run;
mod values;

pub(crate) use condition::Condition;
pub(super) use run::run;
