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
pub(crate) struct Held<K> {
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
    pub(crate) const fn new(kind: &'static str) -> Self {
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
    pub(crate) fn event(&mut self, event: Event<Guard<K>>, now: Timestamp) -> bool {
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
    pub(crate) fn failed(&mut self, message: String, now: Timestamp) -> bool {
        let since = self.failing.as_ref().map_or(now, |trouble| trouble.since);
        let what = self.kind.to_owned();
        let trouble = Some(Trouble { what, since, message });
        let is_news = self.failing != trouble;
        self.failing = trouble;
        is_news
    }

    /// Everything was read at least once.
    pub(crate) const fn is_read(&self) -> bool {
        self.is_read
    }

    /// The objects, by name.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.by_name.values().cloned().collect()
    }

    /// What cannot be read.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = Trouble> {
        self.failing.iter().chain(self.unreadable.values()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::{ObjectMeta, error_boundary::InvalidObject};

    use super::*;

    fn readable(name: &str) -> Guard<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        Guard(Ok(object))
    }

    fn unreadable(name: &str) -> Guard<ConfigMap> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let error = "missing field".to_owned();
        Guard(Err(InvalidObject { error, metadata }))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn check(held: &Held<ConfigMap>, names: &[&str], troubles: &[(&str, i64)]) {
        let all: Vec<String> = held.all().iter().map(|object| object.name_any()).collect();
        assert_eq!(all, names);
        let said: Vec<(String, Timestamp)> = held
            .troubles()
            .map(|trouble| (trouble.what, trouble.since))
            .collect();
        let expect: Vec<(String, Timestamp)> = troubles
            .iter()
            .map(|(what, since)| ((*what).to_owned(), at(*since)))
            .collect();
        assert_eq!(said, expect);
    }

    #[test]
    fn a_new_list_takes_the_place_of_the_old_one_when_it_is_whole() {
        let mut held = Held::new("maps");
        assert!(!held.event(Event::Init, at(0)));
        assert!(!held.event(Event::InitApply(readable("a")), at(0)));
        check(&held, &[], &[]);
        assert!(!held.is_read());
        assert!(held.event(Event::InitDone, at(0)));
        assert!(held.event(Event::Apply(readable("b")), at(1)));
        check(&held, &["a", "b"], &[]);
        held.event(Event::Init, at(2));
        held.event(Event::InitApply(readable("c")), at(2));
        check(&held, &["a", "b"], &[]);
        held.event(Event::InitDone, at(2));
        check(&held, &["c"], &[]);
        held.event(Event::Delete(readable("c")), at(3));
        check(&held, &[], &[]);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_stops_nothing_else() {
        let mut held = Held::new("maps");
        held.event(Event::Apply(readable("a")), at(1));
        held.event(Event::Apply(unreadable("a")), at(2));
        held.event(Event::Apply(readable("b")), at(3));
        check(&held, &["b"], &[("maps a", 2)]);
        held.event(Event::Apply(readable("a")), at(4));
        check(&held, &["a", "b"], &[]);
    }

    #[test]
    fn a_watch_that_fails_is_told_since_it_first_did() {
        let mut held = Held::new("maps");
        held.event(Event::Apply(readable("a")), at(1));
        assert!(held.failed("refused".to_owned(), at(2)));
        assert!(!held.failed("refused".to_owned(), at(3)), "no news");
        // A list that has begun is no list yet.
        held.event(Event::Init, at(4));
        held.failed("refused".to_owned(), at(5));
        check(&held, &["a"], &[("maps", 2)]);
        held.event(Event::InitDone, at(6));
        check(&held, &[], &[]);
    }
}
