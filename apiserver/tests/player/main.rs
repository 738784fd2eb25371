//! The workload player, on paused time: what its clusters do, seen through the API.

// Helpers of tests fail as tests do.
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
