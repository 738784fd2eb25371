//! The process: what runs in it, and how it starts and ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test panics on failure"
)]

#[path = "../common/context.rs"]
mod context;
mod runner;
