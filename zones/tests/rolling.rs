//! Promise: what is on record comes before what is done, and says at any moment how far a group is, what it waits for, and why; what gets no better
//! ends, and is tried again where people say so.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: a failed expectation is meant to end the test"
)]

#[path = "rolling/condemned.rs"]
mod condemned;
#[path = "rolling/fleet.rs"]
mod fleet;
#[path = "rolling/record.rs"]
mod record;
