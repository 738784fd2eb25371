//! Access control: verdicts about tokens, cached for a short time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// How long a verdict is cached, and so how long a revoked token still has access.
const BELIEVED: Duration = Duration::from_secs(30);
/// Maximum number of cached tokens; beyond it the cache is cleared.
const REMEMBERED: usize = 1_024;

/// Decides which tokens have access.
#[async_trait]
pub trait Admission: Send + Sync {
    /// Returns the verdict about a bearer token.
    async fn verdict(&self, token: &str) -> Verdict;
}

/// Verdict about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The token is valid and its user has access.
    Admitted,
    /// The token is invalid.
    Unknown,
    /// The token is valid, but its user has no access.
    Forbidden,
    /// The check failed.
    Unsure,
}

/// Caches verdicts for a while. Only hashes of tokens are kept.
pub(super) struct Cached {
    inner: Arc<dyn Admission>,
    known: Mutex<HashMap<[u8; 32], (Verdict, Instant)>>,
}

impl Cached {
    pub(super) fn new(inner: Arc<dyn Admission>) -> Self {
        Self {
            inner,
            known: Mutex::default(),
        }
    }

    pub(super) async fn verdict(&self, token: &str) -> Verdict {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let known = self.known.lock().get(&key).copied();
        if let Some((verdict, until)) = known
            && Instant::now() < until
        {
            return verdict;
        }
        let verdict = self.inner.verdict(token).await;
        // A failed check is not cached.
        if verdict != Verdict::Unsure {
            let mut known = self.known.lock();
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(key, (verdict, Instant::now() + BELIEVED));
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    #[async_trait]
    impl Admission for Counted {
        async fn verdict(&self, token: &str) -> Verdict {
            self.0.fetch_add(1, Ordering::Relaxed);
            match token {
                "good" => Verdict::Admitted,
                "away" => Verdict::Unsure,
                _ => Verdict::Unknown,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_believed_for_a_short_time() {
        let counter = Arc::new(Counted::default());
        let cached = Cached::new(Arc::clone(&counter) as Arc<dyn Admission>);
        let check = async |token: &str, expect: Verdict, questions: usize| {
            assert_eq!(cached.verdict(token).await, expect, "{token}");
            assert_eq!(counter.0.load(Ordering::Relaxed), questions, "{token}");
        };
        check("good", Verdict::Admitted, 1).await;
        check("good", Verdict::Admitted, 1).await;
        check("other", Verdict::Unknown, 2).await;
        check("away", Verdict::Unsure, 3).await;
        check("away", Verdict::Unsure, 4).await;
        tokio::time::advance(BELIEVED).await;
        check("good", Verdict::Admitted, 5).await;
        for number in 0..2 * REMEMBERED {
            cached.verdict(&number.to_string()).await;
        }
        assert!(cached.known.lock().len() <= REMEMBERED);
    }
}
