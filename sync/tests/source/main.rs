//! Sources: what is fetched, from where, with which credentials, and what is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

mod bad_input;
mod bounds;
mod errors;
mod file;
mod github;
mod hostile;
mod http;
mod incremental;
mod kill;
mod memory;
mod objects;
mod proxy;
mod read;
mod ssh;
mod sshd;
mod support;
mod verify;
