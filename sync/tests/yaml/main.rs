//! YAML as kubectl reads it: values, errors with their positions, edits that keep comments.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

mod edit;
mod errors;
mod fixtures;
mod laws;
mod reading;
mod values;
