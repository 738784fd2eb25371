//! Bindings: values that differ by cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on fails"
)]

mod objects;
mod values;
