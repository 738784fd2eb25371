//! Variables in manifests, as Flux substitutes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

mod fixtures;
mod texts;
