//! What can go wrong besides the content: our own API server.

use muster_sync::apply::LedgerError;

use crate::runtime::{CallError, Retry, Retryable, status::StatusError};

/// A reconcile that could not be brought to an end. What is wrong with a source, its content or a target is no error of a
/// reconcile: it is an outcome, and stands in the status.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// The inventory could not be written.
    #[error(transparent)]
    Ledger(LedgerError),
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Call(error) => error.retry(),
            // A conflict means that somebody wrote in between; the next look sees it.
            Self::Status(_) | Self::Ledger(_) => Retry::Soon,
        }
    }
}
