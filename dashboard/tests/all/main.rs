//! Promises of the dashboard: views of a fleet, pages, the server, streams.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

mod fixture;
mod history;
mod machines;
mod nodes;
mod pages;
mod server;
mod upgrades;
mod views;
mod zones;
