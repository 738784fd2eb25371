//! muster with Cluster API's own controllers: version rollouts over Clusters, and machines that are updated in place.
//!
//! Run by `cargo xtask real run cluster-api`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod bed;
mod certificate;
mod door;
mod in_place;
mod objects;
mod observer;
mod updater;
mod upgrades;

/// The initial version of Clusters.
const OLD: &str = "v1.33.4";
/// The version that is rolled out.
const NEW: &str = "v1.34.2";
