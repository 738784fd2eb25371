//! The promises of NodeModules, one file each: the pure passes of the controller over simulated clusters, whose agents
//! do as the test says.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod budgets;
mod controls;
mod evidence;
mod inputs;
mod limits;
mod lost;
mod support;
mod wire;
