//! A panic is a bug in muster. It ends only the work in which it happens: one object or one Secret must not stop the
//! process for all others.
//!
//! The message of a panic may contain parts of the input, even credentials: it is logged, but never written to a
//! status.

use std::{
    any::Any,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures::FutureExt;
use thiserror::Error;
use tokio::task::JoinError;
use tracing::error;

/// Work that panicked.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("muster panicked; please report this bug with its log")]
pub struct Panicked(String);

impl fmt::Debug for Panicked {
    /// Without the message, as in [`fmt::Display`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Panicked")
    }
}

impl Panicked {
    fn of(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self(text.unwrap_or_else(|| "without a message".to_owned()))
    }

    /// The message of the panic, for the log only.
    pub fn message(&self) -> &str {
        &self.0
    }

    /// Logs the panic. `what` is the operation that panicked.
    pub fn log(&self, what: &str) {
        error!(
            panic = self.message(),
            "muster panicked while {what}; please report this bug"
        );
    }
}

impl From<JoinError> for Panicked {
    /// Our tasks end early only by a panic: cancellation drops what waits for them, too.
    fn from(error: JoinError) -> Self {
        match error.try_into_panic() {
            Ok(payload) => Self::of(&*payload),
            Err(cancelled) => Self(cancelled.to_string()),
        }
    }
}

/// Runs `work`. After a panic, what it changed stays in that state: the caller repairs it or discards it.
pub fn isolated<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::of(&*payload))
}

/// Awaits `work`, like [`isolated`].
pub async fn isolated_future<F: Future>(work: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .map_err(|payload| Panicked::of(&*payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_says_is_for_the_log_alone() {
        let digits = "hunter2".to_owned();
        let panicked = isolated(|| digits.parse::<u8>().unwrap()).unwrap_err();
        assert!(
            panicked.message().contains("InvalidDigit"),
            "{}",
            panicked.message()
        );
        let panicked = isolated(|| panic!("{digits}")).map(|()| 1).unwrap_err();
        assert_eq!(panicked.message(), "hunter2");
        assert!(!panicked.to_string().contains("hunter2"), "{panicked}");
        assert_eq!(isolated(|| 1), Ok(1));
    }

    #[tokio::test]
    async fn a_future_that_panics_after_an_await_is_an_error() {
        let work = async {
            tokio::task::yield_now().await;
            panic!("later")
        };
        let panicked = isolated_future(work).await.map(|()| 1).unwrap_err();
        assert_eq!(panicked.message(), "later");
        let task = tokio::spawn(async { panic!("in a task") });
        assert_eq!(
            Panicked::from(task.await.map(|()| 1).unwrap_err()).message(),
            "in a task"
        );
    }
}
