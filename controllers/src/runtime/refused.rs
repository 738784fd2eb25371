//! Errors of our own layers around a client: what they say is complete, whatever wraps them.

use std::time::Duration;

use thiserror::Error;

const MIB: usize = 1024 * 1024;

/// A write that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not sent: the lease of this process was not renewed in time, another process may act")]
pub struct NotLeading;

/// Why a call was cut off by a bound of ours.
#[derive(Debug, Error)]
pub enum BoundError {
    /// Head and body took too long together.
    #[error("no complete answer within {} s", .0.as_secs())]
    Deadline(Duration),
    /// The body is too long.
    #[error("the answer is longer than {} MiB", .0 / MIB)]
    TooLong(usize),
    /// One event of a watch is too long.
    #[error("an event of a watch is longer than {} MiB", .0 / MIB)]
    EventTooLong(usize),
}
