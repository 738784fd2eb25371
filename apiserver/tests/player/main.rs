//! The workload player, on paused time: the behavior of its clusters through the API.

// Test helpers may panic like tests.
#![allow(clippy::unwrap_used)]

mod bed;
mod daemon_sets;
mod deployments;
mod disruption;
mod faults;
mod jobs;
mod pods;
mod rest;
mod services;
mod stateful_sets;
