//! Evaluating CEL: walking a value and its old value with the rules of its schema ([`run`]), and conditions of webhooks.
//!
//! Schema, new and old value are walked here, because which old value stands for which new one follows the list types.

mod condition;
mod run;
mod values;

pub(crate) use condition::Condition;
pub(super) use run::run;
