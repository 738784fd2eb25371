//! The workload player, on paused time: what its clusters do, seen through the API.

mod bed;
mod daemon_sets;
mod deployments;
mod jobs;
mod pods;
mod rest;
mod services;
mod stateful_sets;
