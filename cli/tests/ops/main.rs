//! `muster enroll` and `unenroll`: a cluster comes into the fleet and goes, on two API servers and a controller between them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

mod bed;
mod enroll;
mod unenroll;
