//! The cluster registry, on in-process API servers and on paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a helper that fails fails its test"
)]

mod bounds;
mod identity;
#[path = "../common/kubeconfig.rs"]
mod kubeconfig;
mod network;
mod owners;
mod panics;
mod states;
mod support;
mod swapped;
