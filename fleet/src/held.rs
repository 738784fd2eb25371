//! The objects of one kind from a watch, and those that cannot be parsed.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
use kube::{Resource, core::error_boundary::InvalidObject, runtime::watcher::Event};
use muster_controllers::runtime::{Guard, Index, Key};
use muster_dashboard::Trouble;

/// How many unparsable objects are kept with their message.
const NAMED: usize = 20;

/// An object as an index entry that is compared by pointer: each version is a change.
#[derive(Debug)]
struct SharedObject<K>(Arc<K>);

impl<K> Clone for SharedObject<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> PartialEq for SharedObject<K> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The objects of a kind.
pub(crate) struct Held<K> {
    kind: &'static str,
    objects: Index<K, SharedObject<K>>,
    unreadable: BTreeMap<Key, Trouble>,
    /// Since when the watch fails, and why.
    failing: Option<Trouble>,
}

impl<K> Held<K>
where
    K: Resource + Clone + Send + Sync + 'static,
{
    /// Starts empty. `kind` is the plural, for messages.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            objects: Index::new(
                |object: &K| Some(SharedObject(Arc::new(object.clone()))),
                |_, _| Vec::new(),
            ),
            unreadable: BTreeMap::new(),
            failing: None,
        }
    }

    /// Handles an event; returns whether the objects may have changed.
    ///
    /// An object that can no longer be parsed is removed, so that views do not show an old state of it.
    pub(crate) fn event(&mut self, event: &Event<Guard<K>>, now: Timestamp) -> bool {
        // A list that has started may fail again.
        if !matches!(event, Event::Init) {
            self.failing = None;
        }
        match event {
            Event::Init => self.unreadable.clear(),
            Event::InitDone => {}
            Event::InitApply(guard) | Event::Apply(guard) => {
                let key = Key::of(guard);
                match &guard.0 {
                    Ok(_) => drop(self.unreadable.remove(&key)),
                    Err(invalid) => {
                        if matches!(event, Event::Apply(_)) {
                            self.objects.delete(&key);
                        }
                        self.cannot_read(key, invalid, now);
                        return matches!(event, Event::Apply(_));
                    }
                }
            }
            Event::Delete(guard) => drop(self.unreadable.remove(&Key::of(guard))),
        }
        self.objects.event(event);
        !matches!(event, Event::Init | Event::InitApply(_))
    }

    fn cannot_read(&mut self, key: Key, invalid: &InvalidObject, now: Timestamp) {
        if self.unreadable.len() < NAMED {
            let trouble = Trouble {
                what: format!("{} {}", self.kind, key.name),
                since: now,
                message: invalid.error.clone(),
            };
            self.unreadable.entry(key).or_insert(trouble);
        }
    }

    /// Records a failure of the watch, which is retried; returns whether it is new.
    pub(crate) fn failed(&mut self, message: String, now: Timestamp) -> bool {
        let since = self.failing.as_ref().map_or(now, |trouble| trouble.since);
        let what = self.kind.to_owned();
        let trouble = Some(Trouble { what, since, message });
        let is_news = self.failing != trouble;
        self.failing = trouble;
        is_news
    }

    /// Whether a complete list was read.
    pub(crate) fn is_read(&self) -> bool {
        self.objects.is_synced()
    }

    /// The objects, in the order of their keys.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.objects.all().into_iter().map(|whole| whole.0).collect()
    }

    /// What cannot be read.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = Trouble> {
        self.failing.iter().chain(self.unreadable.values()).cloned()
    }
}

impl<K> fmt::Debug for Held<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{ResourceExt as _, core::ObjectMeta};

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
        let reported: Vec<(String, Timestamp)> = held
            .troubles()
            .map(|trouble| (trouble.what, trouble.since))
            .collect();
        let expect: Vec<(String, Timestamp)> = troubles
            .iter()
            .map(|(what, since)| ((*what).to_owned(), at(*since)))
            .collect();
        assert_eq!(reported, expect);
    }

    #[test]
    fn a_new_list_takes_the_place_of_the_old_one_when_it_is_whole() {
        let mut held = Held::new("maps");
        assert!(!held.event(&Event::Init, at(0)));
        assert!(!held.event(&Event::InitApply(readable("a")), at(0)));
        check(&held, &[], &[]);
        assert!(!held.is_read());
        assert!(held.event(&Event::InitDone, at(0)));
        assert!(held.event(&Event::Apply(readable("b")), at(1)));
        check(&held, &["a", "b"], &[]);
        held.event(&Event::Init, at(2));
        held.event(&Event::InitApply(readable("c")), at(2));
        check(&held, &["a", "b"], &[]);
        held.event(&Event::InitDone, at(2));
        check(&held, &["c"], &[]);
        held.event(&Event::Delete(readable("c")), at(3));
        check(&held, &[], &[]);
    }

    #[test]
    fn an_unreadable_object_is_reported_and_stops_no_other() {
        let mut held = Held::new("maps");
        held.event(&Event::Apply(readable("a")), at(1));
        held.event(&Event::Apply(unreadable("a")), at(2));
        held.event(&Event::Apply(readable("b")), at(3));
        check(&held, &["b"], &[("maps a", 2)]);
        held.event(&Event::Apply(readable("a")), at(4));
        check(&held, &["a", "b"], &[]);
    }

    #[test]
    fn a_failing_watch_is_reported_since_its_first_failure() {
        let mut held = Held::new("maps");
        held.event(&Event::Apply(readable("a")), at(1));
        assert!(held.failed("refused".to_owned(), at(2)));
        assert!(!held.failed("refused".to_owned(), at(3)), "no news");
        // A list that has started is not complete yet.
        held.event(&Event::Init, at(4));
        held.failed("refused".to_owned(), at(5));
        check(&held, &["a"], &[("maps", 2)]);
        held.event(&Event::InitDone, at(6));
        check(&held, &[], &[]);
    }
}
