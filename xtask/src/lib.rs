//! Checks and tasks of this repository; checks are functions that return the problems.
//!
//! `cargo xtask check` runs all checks; the tests under `xtask/tests/` run those that need no other tool, so that the
//! test command covers them too. Each check returns a list of problems, one line each: file, line if there is one, what
//! is wrong, and what to do.

pub mod alone;
pub mod arrows;
pub mod bench;
pub mod browser;
pub mod circles;
pub mod conformance;
pub mod deploy;
pub mod fixtures;
pub mod fuzz;
pub mod generated;
pub mod health;
pub mod house;
pub mod imports;
pub mod links;
pub mod long;
pub mod model;
pub mod mutate;
pub mod names;
pub mod prose;
pub mod real;
pub mod rulebook;
pub mod simulate;
pub mod tree;
pub mod walks;
pub mod words;

/// The result of a check: one line per problem, empty if there is none.
pub type Problems = Vec<String>;
