//! Errors of the API server, as opposed to those of the content.

use muster_sync::apply::LedgerError;

use crate::runtime::{CallError, Key, Retry, Retryable, status::StatusError};

/// Why a reconcile did not finish. A problem of a source, its content or a target is not an error of a reconcile: it is
/// an outcome, and is reported in the status.
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
    /// A fresh read before deleting returned another object than the observed one.
    #[error(
        "Kustomization {0} has changed since it was observed; nothing is deleted, and it is reconciled again"
    )]
    Changed(Key),
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Call(error) => error.retry(),
            // A conflict means that there was another write in between; the next reconcile reads it.
            Self::Status(_) | Self::Ledger(_) | Self::Changed(_) => Retry::Soon,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn silent(what: &str) -> CallError {
        CallError::Deadline {
            what: what.to_owned(),
            after: Duration::from_secs(30),
        }
    }

    #[test]
    fn errors_say_what_where_and_what_follows() {
        let malformed = serde_json::from_str::<u8>("x").unwrap_err();
        let key = Key::new("fleet", "app");
        let status = "writing the status of Kustomization fleet/app";
        let errors = [
            Error::Call(silent("reading Namespace fleet")),
            Error::Status(StatusError::Call(silent(status))),
            Error::Status(StatusError::Serialize {
                what: format!("Kustomization {key}"),
                source: malformed,
            }),
            Error::Ledger(LedgerError(Box::new(Error::Status(StatusError::Call(silent(
                status,
            )))))),
            Error::Changed(key),
        ];
        let messages: Vec<String> = errors
            .iter()
            .map(|error| format!("{error} [{:?}]", error.retry()))
            .collect();
        insta::assert_snapshot!(messages.join("\n"));
    }
}
