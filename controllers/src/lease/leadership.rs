//! Whether this process may act, by its own clock alone.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::runtime::refused::NotLeading;

/// The right to act, until an instant of the monotonic clock that renewals move. Clones share it.
///
/// That clock continues while the process is stopped (SIGSTOP, a paused container), so a process that is continued
/// after its lease expired has lost the right before it does anything. The clock stops while the whole machine is
/// suspended; then the preconditions of all writes and the growing tokens protect the cluster.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Mutex<Option<Instant>>>);

impl Leadership {
    /// The right to act until `until`.
    pub fn until(until: Instant) -> Self {
        Self(Arc::new(Mutex::new(Some(until))))
    }

    /// Refuses if the right has ended. Called before each write.
    pub fn check(&self) -> Result<(), NotLeading> {
        let until = *self.0.lock();
        let holds = until.is_some_and(|until| Instant::now() < until);
        if holds { Ok(()) } else { Err(NotLeading) }
    }

    /// How long ago the right expired; zero while it is valid. `None` if it was released.
    pub fn over_since(&self) -> Option<Duration> {
        let until = *self.0.lock();
        until.map(|until| Instant::now().saturating_duration_since(until))
    }

    /// Extends the right after a renewal. A right that has ended is not restored.
    pub(super) fn extend(&self, until: Instant) {
        let mut held = self.0.lock();
        if held.is_some_and(|held| Instant::now() < held) {
            *held = Some(until);
        }
    }

    /// When the right ends.
    pub(super) fn end(&self) -> Instant {
        // Released: it has ended.
        self.0.lock().unwrap_or_else(Instant::now)
    }

    /// Ends the right permanently.
    pub(super) fn give_up(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_by_time_and_does_not_come_back() {
        let second = Duration::from_secs(1);
        let right = Leadership::until(Instant::now() + second);
        right.extend(Instant::now() + 2 * second);
        tokio::time::advance(second).await;
        assert_eq!(right.check(), Ok(()), "it was renewed");
        assert_eq!(right.over_since(), Some(Duration::ZERO));
        tokio::time::advance(second).await;
        assert_eq!(right.check(), Err(NotLeading), "the last instant is not in it");
        right.extend(Instant::now() + second);
        assert_eq!(right.check(), Err(NotLeading), "a late renewal is none");
        tokio::time::advance(second).await;
        assert_eq!(right.over_since(), Some(second));
    }

    #[tokio::test(start_paused = true)]
    async fn given_up_is_given_up() {
        let right = Leadership::until(Instant::now() + Duration::from_secs(1));
        right.give_up();
        right.extend(Instant::now() + Duration::from_secs(9));
        assert_eq!(right.check(), Err(NotLeading));
        assert_eq!(right.over_since(), None);
    }
}
