//! The assemblages: their decisions, and the result on API servers in this process, on paused time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::use_self,
    clippy::redundant_closure_for_method_calls,
    reason = "a test ends at the first failed assertion"
)]

mod changes;
#[path = "../common/cluster.rs"]
mod cluster;
#[path = "../common/context.rs"]
mod context;
mod decide;
mod deleted;
mod distributed;
mod end_to_end;
mod flux;
mod foreign;
mod handed_through;
#[path = "../common/kubeconfig_secret.rs"]
mod kubeconfig_secret;
mod mirror;
mod mirrored;
mod plan;
mod remote;
mod rest;
mod row_by_row;
mod rows;
#[path = "../common/setup.rs"]
mod setup;
mod situation;
mod sources;
mod support;
mod tried_again;
mod verdict;
mod withdrawn;
