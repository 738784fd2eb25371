//! Scenarios of muster, the same code on all beds: not a product crate.
//!
//! ```text
//!   scenario (one promise each) ──► Bed ──┬─ virtual: tasks, in-process doors, git in memory, paused time
//!                                         ├─ wire: the binary `muster`, HTTPS, `git http-backend`, SIGKILL
//!                                         └─ real: the same, on real control planes
//!                        observer ◄── event logs of all API servers, one time line
//! ```
//!
//! Invariant: a scenario asserts the state of the API servers and the contents of their event logs, never calls.
//! Invariant: time is asserted on paused time only; on real sockets it is printed.

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a crate of tests: a panic is how a test fails"
)]

pub mod app;
pub mod bed;
pub mod fleet;
#[allow(dead_code, reason = "scenarios use their part of what tests of sources have")]
#[path = "../../sync/tests/source/support/git_server.rs"]
mod git_server;
#[allow(dead_code, reason = "scenarios use their part of what tests of sources have")]
#[path = "../../sync/tests/source/support/gpg.rs"]
mod gpg;
#[allow(dead_code, reason = "scenarios use their part of what tests of sources have")]
#[path = "../../sync/tests/source/support/repo.rs"]
mod repo;
pub mod scenario;
pub mod sops;
#[allow(dead_code, reason = "scenarios use their part of what tests of sources have")]
#[path = "../../sync/tests/source/support/sshd.rs"]
mod sshd;

/// The seed of a randomized run: of the environment variable `MUSTER_SEED`, or a fresh one. Callers must print it.
pub fn seed() -> u64 {
    match std::env::var("MUSTER_SEED") {
        Ok(text) => text.parse().expect("MUSTER_SEED is a number"),
        Err(_unset) => rand::random(),
    }
}
