//! Promise: in a cluster, pods of several zones are replaced and scaled down one zone at a time, recorded before, and
//! only allowed pods are removed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: a failed expectation is meant to end the test"
)]

mod bad_input;
mod endpoints;
mod reviews;
mod rolling;
mod scaling;
mod support;
