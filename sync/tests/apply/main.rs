//! Applying and pruning against an in-process API server; one file for each promise.

#![allow(
    clippy::duration_suboptimal_units,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::similar_names,
    clippy::unwrap_used,
    reason = "helpers of tests: what is not as expected ends the test"
)]

mod calls;
mod crash;
mod drift;
mod exports;
mod failures;
mod handover;
mod health;
mod immutable;
mod many;
mod names;
mod object_policies;
mod prune;
mod secrets;
mod shared;
mod stages;
mod support;
mod takeover;
