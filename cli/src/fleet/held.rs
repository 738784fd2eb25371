//! The objects of one kind as a watch tells them, and what cannot be read of them.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::watcher::Event};
use muster_controllers::runtime::Guard;
use muster_dashboard::Trouble;

/// Objects that cannot be read and are named; more are counted by whoever shows them.
const NAMED: usize = 20;

/// The objects of a kind.
#[derive(Debug)]
pub struct Held<K> {
    kind: &'static str,
    by_name: BTreeMap<String, Arc<K>>,
    /// What a new list has brought so far.
    fresh: Option<BTreeMap<String, Arc<K>>>,
    unreadable: BTreeMap<String, Trouble>,
    /// Since when the watch fails, and why.
    failing: Option<Trouble>,
    is_read: bool,
}

impl<K: Resource> Held<K> {
    /// Nothing was read yet. `kind` is the plural, for people.
    pub const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            by_name: BTreeMap::new(),
            fresh: None,
            unreadable: BTreeMap::new(),
            failing: None,
            is_read: false,
        }
    }

    /// Takes an event in; whether what is held may have changed.
    pub fn event(&mut self, event: Event<Guard<K>>, now: Timestamp) -> bool {
        // A list that has begun may fail again.
        if !matches!(event, Event::Init) {
            self.failing = None;
        }
        match event {
            Event::Init => {
                self.fresh = Some(BTreeMap::new());
                self.unreadable.clear();
                return false;
            }
            Event::InitApply(Guard(object)) => {
                self.put(object, true, now);
                return false;
            }
            Event::InitDone => {
                self.by_name = self.fresh.take().unwrap_or_default();
                self.is_read = true;
            }
            Event::Apply(Guard(object)) => self.put(object, false, now),
            Event::Delete(guard) => {
                let name = guard.name_any();
                self.unreadable.remove(&name);
                self.by_name.remove(&name);
            }
        }
        true
    }

    fn put(
        &mut self,
        object: Result<K, kube::core::error_boundary::InvalidObject>,
        is_list: bool,
        now: Timestamp,
    ) {
        let into = match &mut self.fresh {
            Some(fresh) if is_list => fresh,
            _ => &mut self.by_name,
        };
        match object {
            Ok(object) => {
                let name = object.name_any();
                self.unreadable.remove(&name);
                into.insert(name, Arc::new(object));
            }
            Err(invalid) => {
                let name = invalid.metadata.name.unwrap_or_default();
                into.remove(&name);
                let trouble = Trouble {
                    what: format!("{} {name}", self.kind),
                    since: now,
                    message: invalid.error,
                };
                if self.unreadable.len() < NAMED {
                    self.unreadable.entry(name).or_insert(trouble);
                }
            }
        }
    }

    /// The watch failed, and is tried again; whether that is news.
    pub fn failed(&mut self, message: String, now: Timestamp) -> bool {
        let since = self.failing.as_ref().map_or(now, |trouble| trouble.since);
        let what = self.kind.to_owned();
        let trouble = Some(Trouble { what, since, message });
        let is_news = self.failing != trouble;
        self.failing = trouble;
        is_news
    }

    /// Everything was read at least once.
    pub const fn is_read(&self) -> bool {
        self.is_read
    }

    /// The objects, by name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.by_name.values().cloned().collect()
    }

    /// What cannot be read.
    pub fn troubles(&self) -> impl Iterator<Item = Trouble> {
        self.failing.iter().chain(self.unreadable.values()).cloned()
    }
}
