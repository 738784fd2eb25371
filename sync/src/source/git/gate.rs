//! Whose turn it is: one fetch of a URL at a time, a few of a host.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::SourceError;
use super::super::clock::Deadline;
use super::super::url::GitUrl;

/// Queues by URL and by host; those that nobody waits in are dropped.
#[derive(Debug)]
pub(super) struct Gate {
    per_host: usize,
    queues: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// The right to go on, until it is dropped.
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

    /// For a call that changes nothing here.
    pub(super) async fn host_turn(&self, url: &GitUrl, deadline: Deadline) -> Result<Turn, SourceError> {
        Ok(Turn {
            _permits: vec![
                self.permit(url, deadline, format!("host {}", url.host), self.per_host)
                    .await?,
            ],
        })
    }

    /// For a fetch. The queue of the URL comes first, so that waiting there takes no place of the host.
    pub(super) async fn turn(&self, url: &GitUrl, deadline: Deadline) -> Result<Turn, SourceError> {
        let own = self.permit(url, deadline, mirror_queue(&url.folder()), 1).await?;
        let host = self
            .permit(url, deadline, format!("host {}", url.host), self.per_host)
            .await?;
        Ok(Turn {
            _permits: vec![own, host],
        })
    }

    /// For tidying up the mirror in a folder; none while a fetch works there, or waits to.
    pub(super) fn idle_turn(&self, folder: &str) -> Option<Turn> {
        // Taken means that somebody works there: the next time will do.
        let permit = self.queue(mirror_queue(folder), 1).try_acquire_owned().ok()?;
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
        // The semaphores are never closed: both kinds of failure are a turn that did not come.
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

/// The queue of whoever writes to a mirror.
fn mirror_queue(folder: &str) -> String {
    format!("mirror {folder}")
}
