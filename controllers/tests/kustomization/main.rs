//! The built-in sync, from a commit to objects and back: on API servers in process, paused time, and repositories in
//! memory.

#![allow(
    clippy::duration_suboptimal_units,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::similar_names,
    clippy::unwrap_used,
    reason = "helpers of tests: what is not as expected ends the test"
)]

mod alone;
mod at_rest;
#[path = "../common/context.rs"]
mod context;
mod crashes;
mod deletion;
mod dependencies;
mod drift;
mod evidence;
mod expressions;
mod failures;
mod fields;
mod flux;
mod handover;
mod healthy;
mod jobs;
#[path = "../common/kubeconfig.rs"]
mod kubeconfig;
mod many;
mod names;
mod plan;
mod pruning;
mod remote;
mod revisions;
#[path = "../common/setup.rs"]
mod setup;
mod shared;
mod status;
mod support;
mod times;
mod unchanged;
mod variables;
mod zones;
