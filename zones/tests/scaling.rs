//! Promise: replicas follow a leader or another resource zone by zone, after pods were asked, and never while another zone is disturbed.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

#[path = "scaling/passes.rs"]
mod passes;
#[path = "scaling/rules.rs"]
mod rules;
