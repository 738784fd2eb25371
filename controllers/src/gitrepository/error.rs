//! What can go wrong besides git: our own API server.

use crate::runtime::{CallError, Retry, Retryable, status::StatusError};

/// A reconcile that could not be brought to an end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Call(error) => error.retry(),
            // A conflict means that somebody wrote in between; the next look sees it.
            Self::Status(_) => Retry::Soon,
        }
    }
}
