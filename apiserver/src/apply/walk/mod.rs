//! The walks over typed values: is it of its type, merge two, compare two, take paths away.

mod compare;
mod merge;
mod remove;
mod validate;

pub(super) use compare::{compare, equal};
pub(super) use merge::merge;
pub(super) use remove::remove;
pub(super) use validate::validate;
