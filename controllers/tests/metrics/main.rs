//! Promise: the metrics of a process show what it does and the state of its objects, and whether it is alive and ready;
//! deleted objects have no metrics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

#[path = "../common/cluster.rs"]
mod cluster;
mod deploy;
mod door;
#[path = "../notify/host.rs"]
mod host;
#[path = "../common/kubeconfig_secret.rs"]
mod kubeconfig_secret;
mod notified;
mod scrape;
#[path = "../common/setup.rs"]
mod setup;
