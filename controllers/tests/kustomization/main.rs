//! The built-in sync, from a commit to objects and back: on API servers in process, paused time, and repositories in memory.

mod at_rest;
mod deletion;
mod dependencies;
mod drift;
mod failures;
mod flux;
mod healthy;
mod pruning;
mod remote;
mod repositories;
mod support;
