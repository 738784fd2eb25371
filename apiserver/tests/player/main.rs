//! The workload player, on paused time: what its clusters do, seen through the API.

mod bed;
mod deployments;
mod pods;
mod rest;
