//! GitRepositories alone, without a Kustomization or a Module: on an API server in process, paused time, and
//! repositories in memory.

#![allow(
    clippy::duration_suboptimal_units,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::similar_names,
    clippy::unwrap_used,
    reason = "helpers of tests: what is not as expected ends the test"
)]

#[path = "../common/context.rs"]
mod context;
mod failures;
mod repositories;
mod signed;
mod status;
mod support;
