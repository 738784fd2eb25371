//! The behavior of a Kubernetes API server, one small case per promise.
//!
//! Every case has its own namespace, and its own API group if it needs custom resources, so the cases run in any order
//! and concurrently. They run on the embedded server, or, unchanged, on a real control plane:
//! `MUSTER_CONTRACT_KUBECONFIG=FILE` (`cargo xtask real run contract`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    clippy::used_underscore_binding,
    reason = "a helper that fails fails its test, and a table of cases is as long as its cases"
)]

mod harness;
mod hooks;

mod answers;
mod applies;
mod apply_lists;
mod cel;
mod collection;
mod crds;
mod crud;
mod defaults;
mod discovery;
mod evictions;
mod lifecycle;
mod lists;
mod namespaces;
mod patches;
mod preconditions;
mod stateful_sets;
mod status;
mod table;
mod unchanged;
mod validation;
mod watches;
mod webhook_answers;
mod webhook_configurations;
mod webhook_matching;
mod webhook_reviews;
