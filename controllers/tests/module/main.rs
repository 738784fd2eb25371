//! Modules and everything that delivers them, as processes on in-process API servers, on paused time: what is rolled
//! out, what is removed and what is not, what is written in which order, and how other writers may interfere.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test ends at the first failed assertion"
)]

mod avoids;
mod back;
mod bed;
mod bindings;
#[path = "../common/cluster.rs"]
mod cluster;
mod cluster_deleted;
#[path = "../common/context.rs"]
mod context;
mod controls;
mod deleted;
mod dependencies;
mod deselected;
mod end_to_end;
mod features;
mod flux_source;
mod gap;
mod gates;
mod hand;
mod hostile;
mod kept;
#[path = "../common/kubeconfig_secret.rs"]
mod kubeconfig_secret;
mod missing_clusters;
mod mixture;
mod namesake;
mod pinned;
mod plan_runs;
mod progress;
mod recorded;
mod refused;
mod renamed;
#[path = "../common/setup.rs"]
mod setup;
mod signed;
mod stopped;
mod swept;
mod versions;
mod watched_once;
mod window_status;
mod windows;
mod writes;
