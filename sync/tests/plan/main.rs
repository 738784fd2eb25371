//! Plans of an assemblage: the plan file, and how steps are executed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

mod execute;
mod file;
