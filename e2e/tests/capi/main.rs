//! muster with Cluster API's own controllers: versions over Clusters, and machines updated in place.
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

/// The version that Clusters begin with.
const OLD: &str = "v1.33.4";
/// The version that they are given.
const NEW: &str = "v1.34.2";
