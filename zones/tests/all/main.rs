//! Promises of zones: admission, budgets, rolls and scaling.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

mod admission;
mod budget;
mod budget_objects;
mod command_line;
mod installation;
mod model;
mod rolling;
mod scaling;
