//! The promises of the engine: one file per rule of docs/engine.md, random histories for the invariants.

// The world and its observer are test code too, although not `#[test]` functions; one line for each unit reads best.
#![allow(clippy::panic, clippy::unwrap_used, clippy::needless_for_each)]

mod abandon;
mod abort;
mod batches;
mod blame;
mod budget;
mod change;
mod coverage;
mod deadlines;
mod domains;
mod eligibility;
mod failure;
mod fence;
mod gap;
mod gates;
mod golden;
mod good;
mod histories;
mod history_simulation;
mod limit;
mod lost_memory;
mod memory;
mod order;
mod overtake;
mod pins;
mod progress;
mod reasons;
mod record;
mod refused;
mod regressions;
mod retarget;
mod retry;
mod returned;
mod revert;
mod speed;
mod stages;
mod will;
mod windows;
mod withdrawal;
mod world;
