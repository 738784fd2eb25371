//! Promise: in a cluster, pods of several zones are replaced and taken away one zone at a time, on record before, and only what may go goes.

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
