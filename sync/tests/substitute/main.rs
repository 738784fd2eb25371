//! Variables in manifests, as Flux substitutes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod fixtures;
mod texts;
