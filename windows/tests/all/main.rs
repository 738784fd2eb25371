//! What windows promise: one file per promise.

// Fixtures and the naive reference are test code too, although they are not `#[test]` functions.
#![allow(clippy::panic, clippy::unwrap_used)]

mod bypasses;
mod closed;
mod grammar;
mod invalid;
mod minutes;
mod oracle;
mod skipped;
mod support;
