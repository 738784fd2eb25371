//! The windows of the namespace, as the controllers of modules read them: one watch for both.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, StreamExt, stream};
use kube::{ResourceExt, runtime::watcher};
use muster_windows::Window;
use serde_json::Value;
use tokio::sync::watch;

use super::object::StoredWindow;
use crate::{
    reconcile::Context,
    runtime::{Guard, watch as watching},
};

/// All windows at one time. Cloned by reference.
#[derive(Clone, Debug, Default)]
pub struct Windows(Arc<Set>);

#[derive(Debug, Default)]
struct Set {
    version: u64,
    all: Vec<Window>,
}

impl Windows {
    /// These, for a caller that has read them once.
    pub fn of(all: Vec<Window>) -> Self {
        Self(Arc::new(Set { version: 0, all }))
    }

    /// The windows, by name.
    pub fn all(&self) -> &[Window] {
        &self.0.all
    }

    /// Changes whenever a window does. A status that is written is no change.
    pub fn version(&self) -> u64 {
        self.0.version
    }
}

/// The windows of a namespace, watched.
///
/// Invariant: there is no [`WatchedWindows::current`] set before the first complete list: a window that was not read yet must not be taken
/// for one that does not exist.
#[derive(Debug)]
pub struct WatchedWindows(watch::Sender<Option<Windows>>);

impl Default for WatchedWindows {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl WatchedWindows {
    /// Watches the windows of the context's namespace until its shutdown.
    pub async fn run(self: Arc<Self>, context: Context) {
        let events = watching::watch::<StoredWindow>(
            context.client.clone(),
            &context.namespace,
            watcher::Config::default(),
        );
        let mut known = Known::default();
        let watched = events.for_each(|event| {
            if let Some(windows) = known.take_in(event) {
                self.0.send_replace(Some(windows));
            }
            std::future::ready(())
        });
        // Told to end, or the watch ended, which it does not.
        let _ = context.shutdown.run_until_cancelled(watched).await;
    }

    /// Waits for the first complete list.
    pub async fn synced(self: Arc<Self>) {
        // The sender lives as long as `self`: the only error is not reachable.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// The windows as they are known now. `None`: not before [`WatchedWindows::synced`].
    pub fn current(&self) -> Option<Windows> {
        self.0.borrow().clone()
    }

    /// Gives a sign after each change of a window. Several changes may give one.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        stream::unfold(self.0.subscribe(), |mut changes| async move {
            changes.changed().await.ok().map(|()| ((), changes))
        })
    }
}

/// What the watch showed so far.
#[derive(Default)]
struct Known {
    listed: bool,
    version: u64,
    rows: BTreeMap<String, Row>,
    /// The rows of a list that is not complete yet.
    incoming: BTreeMap<String, Row>,
}

/// A window, and the spec that it was read from.
struct Row {
    spec: Value,
    window: Window,
}

impl Known {
    /// The windows after an event that changes them, or that completes the first list.
    fn take_in(&mut self, event: watcher::Event<Guard<StoredWindow>>) -> Option<Windows> {
        let changed = match event {
            watcher::Event::Init => {
                self.incoming.clear();
                false
            }
            watcher::Event::InitApply(object) => {
                let object = readable(object);
                let (name, row) = (object.name_any(), self.row(&object));
                self.incoming.insert(name, row);
                false
            }
            watcher::Event::InitDone => {
                let before = std::mem::replace(&mut self.rows, std::mem::take(&mut self.incoming));
                let specs = |rows: &BTreeMap<String, Row>| -> BTreeMap<String, Value> {
                    let specs = rows.iter();
                    specs
                        .map(|(name, row)| (name.clone(), row.spec.clone()))
                        .collect()
                };
                let first = !std::mem::replace(&mut self.listed, true);
                first || specs(&before) != specs(&self.rows)
            }
            watcher::Event::Apply(object) => {
                let object = readable(object);
                let (name, row) = (object.name_any(), self.row(&object));
                let before = self.rows.insert(name, row);
                before.is_none_or(|before| before.spec != object.spec)
            }
            watcher::Event::Delete(object) => self.rows.remove(&object.name_any()).is_some(),
        };
        if !changed || !self.listed {
            return None;
        }
        self.version += 1;
        let all = self.rows.values().map(|row| row.window.clone()).collect();
        Some(Windows(Arc::new(Set {
            version: self.version,
            all,
        })))
    }

    fn row(&self, object: &StoredWindow) -> Row {
        let known = self.rows.get(&object.name_any());
        let same = known.filter(|known| known.spec == object.spec);
        Row {
            spec: object.spec.clone(),
            window: same.map_or_else(|| object.read(), |known| known.window.clone()),
        }
    }
}

/// An object without a spec is a window that cannot be read: it closes its namespace.
fn readable(Guard(object): Guard<StoredWindow>) -> StoredWindow {
    object.unwrap_or_else(|invalid| StoredWindow {
        metadata: invalid.metadata,
        spec: Value::Null,
        status: None,
    })
}
