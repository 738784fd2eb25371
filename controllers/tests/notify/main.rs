//! Promise: whoever is to be told of rollouts is told, one message for each rollout that is edited or followed, in the shape that it knows; not
//! again after a restart; and nobody waits for who does not answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first thing that is not as it must be"
)]

mod bed;
#[path = "../common/context.rs"]
mod context;
mod host;
mod told;
