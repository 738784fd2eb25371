//! The promises, one function per scenario, for all beds.

pub mod bad_input;
pub mod bad_input_fleet;
pub mod bad_input_rollout;
pub mod bad_version;
pub mod bootstrap;
pub mod classes;
pub mod cluster_api;
pub mod commit;
pub mod confirmed;
pub mod crash;
pub mod crash_points;
pub mod distribute;
pub mod docs;
pub mod figures;
pub mod flux_directory;
pub mod flux_mode;
pub mod flux_sources;
pub mod hand;
pub mod identity;
pub mod infra;
pub mod install;
pub mod isolation;
pub mod limit;
pub mod moves;
pub mod old_bugs;
pub mod plan;
pub mod plans;
pub mod removal;
pub mod rest;
pub mod rollout;
pub mod rules;
pub mod skipped;
pub mod stopped_leader;
pub mod surprises;
pub mod third_party;
pub mod will;
pub mod windows;
pub mod zones;

/// The clusters of most scenarios.
pub const CLUSTERS: [&str; 3] = ["eu-1", "eu-2", "us-1"];
