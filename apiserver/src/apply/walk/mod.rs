//! Traversals of typed values: validate, merge, compare, remove paths.

mod compare;
mod merge;
mod remove;
mod validate;

pub(super) use compare::{compare, equal};
pub(super) use merge::merge_values;
pub(super) use remove::remove;
pub(super) use validate::validate;
