//! Plans of an assemblage: their file, and how their steps are carried out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod execute;
mod file;
