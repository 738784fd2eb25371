//! Limits concurrent fetches: one at a time per URL, a few per host.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::SourceError;
use super::super::deadline::Deadline;
use super::super::url::GitUrl;

/// Queues by URL and by host; empty ones are dropped.
pub(super) struct Gate {
    per_host: usize,
    queues: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A permit to continue, valid until it is dropped.
pub(super) struct Turn {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Gate {
    pub(super) fn new(per_host: usize) -> Self {
        Self {
            per_host: per_host.max(1),
            queues: Mutex::default(),
        }
    }

    /// For a call that does not change the mirror.
    pub(super) async fn host_turn(&self, url: &GitUrl, deadline: Deadline) -> Result<Turn, SourceError> {
        Ok(Turn {
            _permits: vec![
                self.permit(url, deadline, format!("host {}", url.host), self.per_host)
                    .await?,
            ],
        })
    }

    /// For a fetch. Waits for the URL first, so that this does not occupy a slot of the host.
    pub(super) async fn turn(&self, url: &GitUrl, deadline: Deadline) -> Result<Turn, SourceError> {
        let own = self
            .permit(url, deadline, mirror_queue(&url.directory()), 1)
            .await?;
        let host = self
            .permit(url, deadline, format!("host {}", url.host), self.per_host)
            .await?;
        Ok(Turn {
            _permits: vec![own, host],
        })
    }

    /// For pruning the mirror in a directory; `None` while a fetch is using it, or waits to.
    pub(super) fn idle_turn(&self, directory: &str) -> Option<Turn> {
        // In use: the next run prunes it.
        let permit = self.queue(mirror_queue(directory), 1).try_acquire_owned().ok()?;
        Some(Turn {
            _permits: vec![permit],
        })
    }

    fn queue(&self, name: String, places: usize) -> Arc<Semaphore> {
        let mut queues = self.queues.lock();
        queues.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let queue = queues
            .entry(name)
            .or_insert_with(|| Arc::new(Semaphore::new(places)));
        Arc::clone(queue)
    }

    async fn permit(
        &self,
        url: &GitUrl,
        deadline: Deadline,
        queue: String,
        places: usize,
    ) -> Result<OwnedSemaphorePermit, SourceError> {
        let queue = self.queue(queue, places);
        let waited = tokio::time::timeout(deadline.remaining(), queue.acquire_owned()).await;
        // The semaphores are never closed: either error means that the deadline has passed.
        waited
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| SourceError::Timeout {
                url: url.text.clone(),
                after: deadline.total,
                phase: "waiting for other fetches of this host",
            })
    }
}

/// The queue for writing to a mirror.
fn mirror_queue(directory: &str) -> String {
    format!("mirror {directory}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on failure")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// A fetch takes a second of virtual time. Returns the highest number of concurrent fetches, and the total time.
    async fn run(urls: Vec<String>, per_host: usize) -> (usize, Duration) {
        let gate = Arc::new(Gate::new(per_host));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let began = tokio::time::Instant::now();
        let fetches = urls.into_iter().map(|url| {
            let (gate, running, most) = (Arc::clone(&gate), Arc::clone(&running), Arc::clone(&most));
            tokio::spawn(async move {
                let url = GitUrl::parse(&url, true).unwrap();
                let _turn = gate
                    .turn(&url, Deadline::after(Duration::from_hours(1)))
                    .await
                    .unwrap();
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                running.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for fetch in fetches.collect::<Vec<_>>() {
            fetch.await.unwrap();
        }
        (most.load(Ordering::SeqCst), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_a_url_and_four_of_a_host_at_a_time() {
        let check = async |urls: Vec<String>, most: usize, seconds: u64| {
            let (ran, took) = run(urls.clone(), 4).await;
            assert_eq!((ran, took.as_secs()), (most, seconds), "{urls:?}");
        };
        let of = |count: usize, url: &str| -> Vec<String> {
            (0..count)
                .map(|number| url.replace('N', &number.to_string()))
                .collect()
        };
        check(of(20, "https://a.test/same"), 1, 20).await;
        check(of(20, "https://a.test/N"), 4, 5).await;
        check(of(20, "https://hN.test/x"), 20, 1).await;
        // Fetches that wait for one repository do not occupy slots of its host.
        let mut mixed = of(20, "https://a.test/same");
        mixed.extend(of(3, "https://a.test/N"));
        check(mixed, 4, 20).await;
        // Each port counts as a separate host.
        check(of(8, "https://a.test:800N/x"), 8, 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_come_ends_at_the_deadline() {
        let gate = Gate::new(1);
        let url = GitUrl::parse("https://a.test/x", true).unwrap();
        let deadline = || Deadline::after(Duration::from_mins(1));
        let held = gate.turn(&url, deadline()).await.unwrap();
        let error = gate.turn(&url, deadline()).await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "https://a.test/x did not answer within 60s (waiting for other fetches of this host); see --git-timeout"
        );
        assert!(gate.idle_turn(&url.directory()).is_none(), "the mirror is in use");
        drop(held);
        assert!(gate.idle_turn(&url.directory()).is_some());
        gate.turn(&url, deadline()).await.unwrap();
    }
}
