//! Promise: a process tells by numbers what it does and what its objects are, and whether it is alive and ready; what is gone is not told of.

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
