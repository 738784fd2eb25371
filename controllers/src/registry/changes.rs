//! Who wants to know of changed clusters: names wait, each once, until they are read; the queue is bounded by the number of clusters.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use futures::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The subscribers.
#[derive(Debug, Default)]
pub(super) struct Changes(Mutex<Vec<Weak<Waiting>>>);

/// What one subscriber has not read yet.
#[derive(Debug, Default)]
struct Waiting {
    names: Mutex<BTreeSet<String>>,
    more: Notify,
}

impl Changes {
    /// A stream of the names that are `present`, then of those announced. It never ends.
    pub(super) fn subscribe(
        &self,
        present: BTreeSet<String>,
    ) -> impl Stream<Item = String> + Send + 'static + use<> {
        let waiting = Arc::new(Waiting {
            names: Mutex::new(present),
            more: Notify::new(),
        });
        self.0.lock().push(Arc::downgrade(&waiting));
        stream::unfold(waiting, |waiting| async move {
            loop {
                // The guard must not live over the await.
                let first = waiting.names.lock().pop_first();
                match first {
                    Some(name) => return Some((name, waiting)),
                    None => waiting.more.notified().await,
                }
            }
        })
    }

    /// A cluster's row changed, or it is gone.
    pub(super) fn announce(&self, name: &str) {
        self.0.lock().retain(|subscriber| {
            let Some(waiting) = subscriber.upgrade() else {
                return false;
            };
            waiting.names.lock().insert(name.to_owned());
            waiting.more.notify_one();
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn each_changed_name_is_read_once() {
        let changes = Changes::default();
        let mut names = Box::pin(changes.subscribe(BTreeSet::from(["b".to_owned()])));
        for name in ["a", "c", "a"] {
            changes.announce(name);
        }
        for expect in ["a", "b", "c"] {
            assert_eq!(names.next().await.as_deref(), Some(expect));
        }
        assert!(futures::poll!(names.next()).is_pending());
        changes.announce("a");
        assert_eq!(names.next().await.as_deref(), Some("a"));
    }
}
