//! Errors of our own layers around a client: their messages are complete, whatever error wraps them.

use std::time::Duration;

use thiserror::Error;

const MIB: usize = 1024 * 1024;

/// A write that was not sent, as this process is not the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not sent: the lease of this process was not renewed in time, another process may act")]
pub struct NotLeading;

/// Why one of our limits ended a call.
#[derive(Debug, Error)]
pub enum BoundError {
    /// Headers and body together took too long.
    #[error("no complete answer within {} s", .0.as_secs())]
    Deadline(Duration),
    /// The body is too long.
    #[error("the response is longer than {} MiB", .0 / MIB)]
    TooLong(usize),
    /// One event of a watch is too long.
    #[error("an event of a watch is longer than {} MiB", .0 / MIB)]
    EventTooLong(usize),
}
