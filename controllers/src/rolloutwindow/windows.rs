//! The windows of the namespace for the module controllers: one watch for both.

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

/// All windows at one time. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Windows(Arc<Set>);

#[derive(Debug, Default)]
struct Set {
    version: u64,
    all: Vec<Window>,
}

impl Windows {
    /// From a list, for a caller that reads them only once.
    pub fn of(all: Vec<Window>) -> Self {
        Self(Arc::new(Set { version: 0, all }))
    }

    /// The windows, sorted by name.
    pub fn all(&self) -> &[Window] {
        &self.0.all
    }

    /// Changes whenever a window's spec changes; writing a status does not change it.
    pub fn version(&self) -> u64 {
        self.0.version
    }
}

/// The windows of a namespace, watched.
///
/// Invariant: [`WatchedWindows::current`] is not set before the first complete list: a window that was not read yet
/// must not be treated as absent.
#[derive(Debug)]
pub struct WatchedWindows(watch::Sender<Option<Windows>>);

impl Default for WatchedWindows {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl WatchedWindows {
    /// Watches the windows of the context's namespace until shutdown.
    pub async fn run(self: Arc<Self>, context: Context) {
        let events = watching::watch::<StoredWindow>(
            context.client.clone(),
            &context.namespace,
            watcher::Config::default(),
        );
        let mut known = WindowCache::default();
        let watched = events.for_each(|event| {
            if let Some(windows) = known.take_in(event) {
                self.0.send_replace(Some(windows));
            }
            std::future::ready(())
        });
        // Ends on shutdown; the watch itself never ends.
        let _ = context.shutdown.run_until_cancelled(watched).await;
    }

    /// Waits for the first complete list.
    pub async fn synced(self: Arc<Self>) {
        // The sender lives as long as `self`: the only error is unreachable.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// The present windows; `None` before [`WatchedWindows::synced`] returns.
    pub fn current(&self) -> Option<Windows> {
        self.0.borrow().clone()
    }

    /// Yields an item after each change of a window. Several changes may yield one.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        stream::unfold(self.0.subscribe(), |mut changes| async move {
            changes.changed().await.ok().map(|()| ((), changes))
        })
    }
}

/// What the watch has shown so far.
#[derive(Default)]
struct WindowCache {
    listed: bool,
    version: u64,
    rows: BTreeMap<String, Row>,
    /// The rows of a list that is not complete yet.
    incoming: BTreeMap<String, Row>,
}

/// A window, and the spec that it was parsed from.
struct Row {
    spec: Value,
    window: Window,
}

impl WindowCache {
    /// The windows after an event that changes them, or that completes the first list; otherwise `None`.
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

/// An object that cannot be parsed gets an invalid spec, so that it closes its namespace.
fn readable(Guard(object): Guard<StoredWindow>) -> StoredWindow {
    object.unwrap_or_else(|invalid| StoredWindow {
        metadata: invalid.metadata,
        spec: Value::Null,
        status: None,
    })
}
