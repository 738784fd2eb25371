//! `muster enroll`, `unenroll`, `check`, `support-bundle` and `uninstall`, on two API servers and a controller between them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

mod bed;
mod bundle;
mod check;
mod enroll;
mod look;
mod unenroll;
mod uninstall;
