//! Errors of the API server, as opposed to git.

use crate::runtime::{CallError, Retry, Retryable, status::StatusError};

/// Why a reconcile did not finish.
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
            // A conflict means that there was another write in between; the next reconcile reads it.
            Self::Status(_) => Retry::Soon,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on failure")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_ends_a_reconcile() {
        let call = || CallError::Deadline {
            what: "reading Secret fleet/git".to_owned(),
            after: Duration::from_secs(30),
        };
        let all = [
            Error::Call(call()),
            Error::Status(StatusError::Call(call())),
            Error::Status(StatusError::Serialize {
                what: "GitRepository fleet/src".to_owned(),
                source: serde_json::from_str::<u8>("x").unwrap_err(),
            }),
        ];
        let shown: Vec<String> = all
            .iter()
            .map(|error| format!("{:?}: {error}", error.retry()))
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }
}
