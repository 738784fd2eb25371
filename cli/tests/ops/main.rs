//! The command against two API servers and a controller between them: `enroll`, `unenroll`, `check`, `support-bundle`,
//! `uninstall`, `get`, and controls. `demo --zones` is here too, because it waits more than it works.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

mod bed;
mod bundle;
mod check;
mod control_commands;
mod demo_zones;
mod enroll;
mod get;
mod nodes;
mod queries;
mod reasons;
mod trouble;
mod unenroll;
mod uninstall;
mod windows;
mod zones;
