//! Chores of this repository, as functions that return what is wrong.
//!
//! `cargo xtask check` runs them all; the tests under `xtask/tests/` run those that need no other tool, so that the test command
//! holds them too. Each check answers with a list of problems, one line each: file, line where there is one, what, and what to do.

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

/// What a check found: one line for each problem, empty when all is well.
pub type Problems = Vec<String>;
