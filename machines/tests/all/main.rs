//! Promises of in-place updates: one file per promise.

// Fixtures are test code too, although no `#[test]` functions.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

mod covered;
mod done;
mod held;
mod order;
mod planned;
mod support;
mod wire;
