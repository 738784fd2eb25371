//! Promise: the configured receivers are notified of rollouts, one message for each rollout that is edited or followed
//! up, in the receiver's protocol; not again after a restart; and nothing waits for a receiver that does not respond.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first failed assertion"
)]

mod bed;
#[path = "../common/context.rs"]
mod context;
mod host;
mod messages;
