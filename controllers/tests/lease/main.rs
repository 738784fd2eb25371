//! Promise: of several processes one acts; another one takes over within the lease and one retry; a process that lost
//! its lease acts no more. On paused time, against the API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

mod failover;
mod holding;
mod process;
mod random;
#[path = "../common/setup.rs"]
mod setup;
mod support;
