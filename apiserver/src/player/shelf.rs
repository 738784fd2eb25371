//! Cache of the objects of one kind: from watches and from the responses to the player's own writes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

/// Namespace (empty for cluster-scoped objects) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of an object.
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default(); // absent is empty
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
        }
    }
}

/// An object and since when it is known.
#[derive(Clone, Debug)]
pub(super) struct Observed<K> {
    /// The newest known version.
    pub object: K,
    /// When its first version was observed: more precise than `creationTimestamp`, which has whole seconds.
    pub since: Timestamp,
    /// When it was first observed as terminating.
    pub stopping_since: Option<Timestamp>,
}

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Shelf<K> {
    entries: BTreeMap<Key, Observed<K>>,
    by_owner: BTreeMap<String, BTreeSet<Key>>,
    /// Uids of objects that this player deleted and whose deletion no watch has reported yet.
    doomed: BTreeSet<String>,
    /// Keys in the current list so far, while a list is being read.
    listing: Option<BTreeSet<Key>>,
    /// Whether a list was read completely.
    pub is_synced: bool,
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            doomed: BTreeSet::new(),
            listing: None,
            is_synced: false,
        }
    }
}

impl<K: Resource<DynamicType = ()>> Shelf<K> {
    /// One object.
    pub(super) fn get(&self, key: &Key) -> Option<&Observed<K>> {
        self.entries
            .get(key)
            .filter(|observed| !self.doomed.contains(meta_uid(observed.object.meta())))
    }

    /// All objects, by key.
    pub(super) fn all(&self) -> impl Iterator<Item = &Observed<K>> {
        self.entries
            .values()
            .filter(|observed| !self.doomed.contains(meta_uid(observed.object.meta())))
    }

    /// The objects of a namespace, by name.
    pub(super) fn within(&self, namespace: &str) -> impl Iterator<Item = &Observed<K>> {
        let from = Key {
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let all = self.entries.range(from..);
        let here = all
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, observed)| observed);
        here.filter(|observed| !self.doomed.contains(meta_uid(observed.object.meta())))
    }

    /// The objects that this one controls, by key.
    pub(super) fn controlled_by(&self, owner: &ObjectMeta) -> Vec<&Observed<K>> {
        let keys = self.by_owner.get(meta_uid(owner)).into_iter().flatten();
        keys.filter_map(|key| self.get(key)).collect()
    }

    /// Stores a version, unless a newer one is known. Returns the version before, and whether anything changed.
    pub(super) fn put(&mut self, object: K, now: Timestamp) -> (Option<K>, bool) {
        let key = Key::of(object.meta());
        if let Some(listed) = &mut self.listing {
            listed.insert(key.clone());
        }
        let known = self.entries.get(&key);
        if known.is_some_and(|known| !is_newer(object.meta(), known.object.meta())) {
            return (None, false);
        }
        let before = self.take(&key);
        let same = before
            .as_ref()
            .filter(|before| meta_uid(before.object.meta()) == meta_uid(object.meta()));
        let since = same.map_or(now, |before| before.since);
        let stopping_since = object.meta().deletion_timestamp.as_ref().map(|_| {
            let known = same.and_then(|before| before.stopping_since);
            known.unwrap_or(now)
        });
        if let Some(owner) = controller(object.meta()) {
            self.by_owner
                .entry(owner.uid.clone())
                .or_default()
                .insert(key.clone());
        }
        self.entries.insert(
            key,
            Observed {
                object,
                since,
                stopping_since,
            },
        );
        (before.map(|observed| observed.object), true)
    }

    /// Removes an object. Returns whether it was known.
    pub(super) fn remove(&mut self, meta: &ObjectMeta) -> bool {
        self.doomed.remove(meta_uid(meta));
        let key = Key::of(meta);
        let is_known = self
            .entries
            .get(&key)
            .is_some_and(|observed| meta_uid(observed.object.meta()) == meta_uid(meta));
        is_known && self.take(&key).is_some()
    }

    /// Records that a write of this player deleted the object immediately.
    pub(super) fn doom(&mut self, meta: &ObjectMeta) {
        self.doomed.insert(meta_uid(meta).to_owned());
    }

    /// Begins a new list.
    pub(super) fn begin_list(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// Ends the list: objects that it did not contain are gone, and are returned.
    pub(super) fn end_list(&mut self) -> Vec<K> {
        self.is_synced = true;
        let Some(listed) = self.listing.take() else {
            return Vec::new();
        };
        let gone: Vec<Key> = self
            .entries
            .keys()
            .filter(|key| !listed.contains(key))
            .cloned()
            .collect();
        let gone: Vec<K> = gone
            .iter()
            .filter_map(|key| self.take(key))
            .map(|observed| observed.object)
            .collect();
        for object in &gone {
            self.doomed.remove(meta_uid(object.meta()));
        }
        gone
    }

    fn take(&mut self, key: &Key) -> Option<Observed<K>> {
        let removed = self.entries.remove(key)?;
        if let Some(owner) = controller(removed.object.meta())
            && let Some(keys) = self.by_owner.get_mut(&owner.uid)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(&owner.uid);
            }
        }
        Some(removed)
    }
}

/// The uid; empty if there is none yet.
pub(super) fn meta_uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

/// The owner that controls an object.
pub(super) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

/// Resource versions are comparable since Kubernetes 1.35. If they are not, the version counts as newer.
fn is_newer(meta: &ObjectMeta, known: &ObjectMeta) -> bool {
    let version = |meta: &ObjectMeta| meta.resource_version.as_deref()?.parse::<u64>().ok(); // not a number: no order
    version(known)
        .zip(version(meta))
        .is_none_or(|(known, new)| new > known)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, version: u64, owner: &str) -> Pod {
        let meta = json!({
            "name": "a", "namespace": "n", "uid": uid, "resourceVersion": version.to_string(),
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true}],
        });
        serde_json::from_value(json!({"metadata": meta})).unwrap()
    }

    fn owner(uid: &str) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_newest_version_wins_and_the_first_observed_time_is_kept() {
        let mut shelf = Shelf::default();
        assert!(shelf.put(pod("1", 5, "o"), at(1)).1);
        assert!(!shelf.put(pod("1", 4, "o"), at(2)).1);
        assert!(shelf.put(pod("1", 6, "p"), at(3)).1);
        assert_eq!(
            shelf.all().map(|observed| observed.since).collect::<Vec<_>>(),
            [at(1)]
        );
        assert_eq!(
            (
                shelf.controlled_by(&owner("o")).len(),
                shelf.controlled_by(&owner("p")).len()
            ),
            (0, 1)
        );
        assert!(
            shelf.put(pod("2", 9, "p"), at(4)).1,
            "another object of the same name"
        );
        assert!(
            !shelf.remove(&pod("1", 8, "p").metadata),
            "the end of the first is old news"
        );
        assert_eq!(
            shelf.all().map(|observed| observed.since).collect::<Vec<_>>(),
            [at(4)]
        );
    }

    #[test]
    fn deleted_objects_are_hidden_until_the_watch_confirms() {
        let mut shelf = Shelf::default();
        shelf.put(pod("1", 5, "o"), at(1));
        shelf.doom(&pod("1", 5, "o").metadata);
        shelf.put(pod("1", 6, "o"), at(2));
        assert_eq!((shelf.all().count(), shelf.within("n").count()), (0, 0));
        assert!(shelf.remove(&pod("1", 7, "o").metadata));
    }

    #[test]
    fn a_new_list_takes_away_what_it_does_not_show() {
        let mut shelf = Shelf::default();
        shelf.put(pod("1", 5, "o"), at(1));
        shelf.begin_list();
        assert_eq!(shelf.end_list().len(), 1);
        assert!(shelf.is_synced && shelf.all().next().is_none() && shelf.by_owner.is_empty());
    }
}
