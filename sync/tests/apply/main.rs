//! Applying and pruning, on an API server in process; one file for each promise.

mod drift;
mod failures;
mod health;
mod immutable;
mod prune;
mod stages;
mod support;
mod wishes;
