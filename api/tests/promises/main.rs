//! The promises of this crate, one file each; a single binary, because linking costs more than testing.
#![allow(
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, and take the values of tables as they stand"
)]

mod columns;
mod conditions;
mod controls;
mod crds;
mod defaults;
mod digests;
mod examples;
mod names;
mod nodes;
mod quantities;
mod reasons;
mod rules;
mod selector;
mod support;
mod validation;
