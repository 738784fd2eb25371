//! Notifies subscribers of changed names: each name is queued once until it is read, so a queue is bounded by the
//! number of named things.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use futures::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The subscribers.
#[derive(Debug)]
pub struct Changes<T>(Mutex<Vec<Weak<Waiting<T>>>>);

/// The names that one subscriber has not read yet.
#[derive(Debug)]
struct Waiting<T> {
    names: Mutex<BTreeSet<T>>,
    more: Notify,
}

impl<T> Default for Changes<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Ord + Clone + Send + 'static> Changes<T> {
    /// A stream that starts with the names in `present`, followed by announced ones. It never ends.
    pub fn subscribe(&self, present: BTreeSet<T>) -> impl Stream<Item = T> + Send + 'static + use<T> {
        let waiting = Arc::new(Waiting {
            names: Mutex::new(present),
            more: Notify::new(),
        });
        self.0.lock().push(Arc::downgrade(&waiting));
        stream::unfold(waiting, |waiting| async move {
            loop {
                // The guard must not be held across the await.
                let first = waiting.names.lock().pop_first();
                match first {
                    Some(name) => return Some((name, waiting)),
                    None => waiting.more.notified().await,
                }
            }
        })
    }

    /// Announces that the named thing changed or is gone.
    pub fn announce(&self, name: &T) {
        self.0.lock().retain(|subscriber| {
            let Some(waiting) = subscriber.upgrade() else {
                return false;
            };
            waiting.names.lock().insert(name.clone());
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
            changes.announce(&name.to_owned());
        }
        for expect in ["a", "b", "c"] {
            assert_eq!(names.next().await.as_deref(), Some(expect));
        }
        assert!(futures::poll!(names.next()).is_pending());
        changes.announce(&"a".to_owned());
        assert_eq!(names.next().await.as_deref(), Some("a"));
    }
}
