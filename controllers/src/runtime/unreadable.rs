//! Objects of a watch that exist but cannot be parsed: their content is unknown, which is not the same as empty.

use std::collections::BTreeSet;

use kube::{Resource, runtime::watcher};
use parking_lot::Mutex;

use super::{Key, watch::Watched};

/// The keys of objects that cannot be parsed, as a watch shows them.
#[derive(Debug, Default)]
pub struct Unreadable(Mutex<UnreadableKeys>);

#[derive(Debug, Default)]
struct UnreadableKeys {
    keys: BTreeSet<Key>,
    /// Keys from a list that is not complete yet.
    listed: BTreeSet<Key>,
}

impl Unreadable {
    /// Records an event.
    pub(crate) fn record<K: Resource<DynamicType = ()>>(&self, event: &Watched<K>) {
        let mut known = self.0.lock();
        match event {
            watcher::Event::Init => known.listed.clear(),
            watcher::Event::InitApply(guard) if guard.0.is_err() => {
                known.listed.insert(Key::of(guard));
            }
            watcher::Event::InitApply(_) => {}
            watcher::Event::InitDone => known.keys = std::mem::take(&mut known.listed),
            watcher::Event::Apply(guard) if guard.0.is_err() => {
                known.keys.insert(Key::of(guard));
            }
            watcher::Event::Apply(guard) | watcher::Event::Delete(guard) => {
                known.keys.remove(&Key::of(guard));
            }
        }
    }

    /// Whether this object cannot be parsed.
    pub fn contains(&self, key: &Key) -> bool {
        self.0.lock().keys.contains(key)
    }

    /// The first of these objects, if there are any.
    pub fn first(&self) -> Option<Key> {
        self.0.lock().keys.first().cloned()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::runtime::Guard;

    fn object(name: &str, data: &serde_json::Value) -> Guard<ConfigMap> {
        let object = json!({"metadata": {"name": name, "namespace": "n"}, "data": data});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_cannot_be_read_is_known_until_it_can_or_is_gone() {
        let unreadable = Unreadable::default();
        let (good, bad) = (json!({}), json!("no map"));
        let key = Key::new("n", "a");
        for (event, expect) in [
            (watcher::Event::Init, false),
            (watcher::Event::InitApply(object("a", &bad)), false),
            (watcher::Event::InitDone, true),
            (watcher::Event::Apply(object("a", &good)), false),
            (watcher::Event::Apply(object("a", &bad)), true),
            // An incomplete list does not say anything about what is not in it yet.
            (watcher::Event::Init, true),
            (watcher::Event::InitDone, false),
            (watcher::Event::Apply(object("a", &bad)), true),
            (watcher::Event::Delete(object("a", &bad)), false),
        ] {
            unreadable.record(&event);
            assert_eq!(unreadable.contains(&key), expect, "{event:?}");
            assert_eq!(unreadable.first().is_some(), expect, "{event:?}");
        }
    }
}
