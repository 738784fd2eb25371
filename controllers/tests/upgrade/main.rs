//! ClusterUpgrades on in-process API servers, on paused time, with a simulated Cluster API: which Cluster changes next,
//! what confirms it, what stops it, and that only one field of a Cluster is written.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test ends at the first failed assertion"
)]

mod bed;
#[path = "../common/context.rs"]
mod context;
mod evidence;
mod hindered;
#[path = "../common/kubeconfig_secret.rs"]
mod kubeconfig_secret;
mod rolled;
