//! Bindings: values that differ by cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test panics on failure"
)]

mod objects;
mod values;
