//! From files to manifests, from a directory on disk to files, and from manifests to text.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

mod directory;
mod errors;
mod manifests;
mod print;
