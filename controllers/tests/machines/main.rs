//! The promises of `muster machines`, one file each: Machines and plans in an API server, simulated updaters, and
//! Cluster API's requests.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod changed;
mod controls;
mod decided;
mod events;
#[path = "../common/kubeconfig_secret.rs"]
mod kubeconfig_secret;
mod nodes;
mod process;
mod restarts;
mod support;
mod updated;
mod web;
