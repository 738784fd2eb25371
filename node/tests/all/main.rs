//! The promises of the node agent: one file per promise.

// Fixtures are test code too, although no `#[test]` functions.
#![allow(clippy::panic, clippy::unwrap_used)]

mod checks;
mod clocks;
mod configuration;
mod drift_and_holds;
mod full_disk;
mod host;
mod interruptions;
mod journals;
mod known_bad;
mod landlock;
mod originals;
mod power_cuts;
mod processes;
mod real_disk;
mod refusals;
mod rows;
mod secrets;
mod support;
mod verdicts;
