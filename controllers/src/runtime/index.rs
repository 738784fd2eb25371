//! Rows instead of objects: what a controller needs of a watched kind, by key, and which targets a change affects.
//!
//! kube-runtime maps a changed object only by its new state; a controller must also know which objects it no longer
//! refers to. An index therefore keeps each row, and returns the targets of the old and the new one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kube::{
    Resource, ResourceExt,
    runtime::{
        reflector::{self, ObjectRef},
        watcher,
    },
};
use parking_lot::RwLock;
use tokio::sync::watch;
use tracing::warn;

use super::{Guard, Panicked, isolated};

/// The identity of an object within its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl Key {
    /// A key from its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object.
    pub fn of(object: &impl Resource) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }

    /// The same key in kube-runtime's form.
    pub fn object_ref<K>(&self) -> ObjectRef<K>
    where
        K: reflector::Lookup<DynamicType = ()>,
    {
        ObjectRef::new(&self.name).within(&self.namespace)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The keys of all objects of a store.
pub(crate) fn store_keys<K>(store: &reflector::Store<K>) -> Vec<Key>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.state().iter().map(|object| Key::of(&**object)).collect()
}

/// Maps an object to its row; `None`: ignored.
type Project<K, R> = Box<dyn Fn(&K) -> Option<R> + Send + Sync>;
/// Maps a row to the targets that it affects.
type Targets<R> = Box<dyn Fn(&Key, &R) -> Vec<Key> + Send + Sync>;
/// Maps an object and its former row to its new row; `None`: ignored from then on.
type Succeed<K, R> = Box<dyn Fn(&K, &R) -> Option<R> + Send + Sync>;
/// Maps the former and the new row to the targets that the change affects.
type AffectedTargets<R> = Box<dyn Fn(&Key, &R, &R) -> Vec<Key> + Send + Sync>;

/// Small rows of one watched kind `K`.
pub struct Index<K, R> {
    row: Project<K, R>,
    targets: Targets<R>,
    succeed: Option<Succeed<K, R>>,
    concern: Option<AffectedTargets<R>>,
    state: RwLock<State<R>>,
    synced: watch::Sender<bool>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State<R> {
    rows: BTreeMap<Key, R>,
    /// The resourceVersions of the objects, if they are numbers.
    versions: BTreeMap<Key, u64>,
    /// The rows that affect a target: the reverse of `targets`.
    about: BTreeMap<Key, BTreeSet<Key>>,
    /// The rows of a list that is not complete yet.
    incoming: BTreeMap<Key, R>,
}

impl<K, R> Index<K, R>
where
    K: Resource,
    R: Clone + PartialEq,
{
    /// `row` projects an object (`None`: ignored); `targets` returns the targets that a row affects.
    pub fn new(
        row: impl Fn(&K) -> Option<R> + Send + Sync + 'static,
        targets: impl Fn(&Key, &R) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        Self {
            row: Box::new(row),
            targets: Box::new(targets),
            succeed: None,
            concern: None,
            state: RwLock::new(State {
                rows: BTreeMap::new(),
                versions: BTreeMap::new(),
                about: BTreeMap::new(),
                incoming: BTreeMap::new(),
            }),
            synced: watch::Sender::new(false),
            changed: watch::Sender::new(()),
        }
    }

    /// Projects an object that has a row by `succeed` instead: the new row may share unchanged parts with the former
    /// one.
    #[must_use]
    pub fn succeeding(mut self, succeed: impl Fn(&K, &R) -> Option<R> + Send + Sync + 'static) -> Self {
        self.succeed = Some(Box::new(succeed));
        self
    }

    /// Sets the targets that a change of a row affects, instead of all of both rows.
    #[must_use]
    pub fn concerning(mut self, concern: impl Fn(&Key, &R, &R) -> Vec<Key> + Send + Sync + 'static) -> Self {
        self.concern = Some(Box::new(concern));
        self
    }

    /// The row of `key`.
    pub fn get(&self, key: &Key) -> Option<R> {
        self.state.read().rows.get(key).cloned()
    }

    /// All rows that affect `target`, sorted by name: an index covers one namespace.
    pub fn about(&self, target: &Key) -> Vec<(String, R)> {
        let state = self.state.read();
        let keys = state.about.get(target).into_iter().flatten();
        keys.filter_map(|key| Some((key.name.clone(), state.rows.get(key)?.clone())))
            .collect()
    }

    /// All rows, sorted by key. Use [`std::sync::Arc`] for large rows.
    pub fn all(&self) -> Vec<R> {
        self.state.read().rows.values().cloned().collect()
    }

    /// All targets that any row affects.
    pub fn all_targets(&self) -> BTreeSet<Key> {
        self.state.read().about.keys().cloned().collect()
    }

    /// Reads all rows without copying them. Do not block in `read`.
    pub fn with<T>(&self, read: impl FnOnce(&BTreeMap<Key, R>) -> T) -> T {
        read(&self.state.read().rows)
    }

    /// Whether a complete list was received. Before that, an absent row proves nothing.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits for the first complete list.
    pub async fn synced(&self) {
        // The sender lives as long as `self`: the only error is unreachable.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Signals each change of a row.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits until a condition is true for the row of `key`. Do not block in `holds`.
    pub async fn until(&self, key: &Key, holds: impl Fn(Option<&R>) -> bool) {
        let mut changed = self.changed.subscribe();
        while !holds(self.state.read().rows.get(key)) {
            // The sender lives as long as `self`: the only error is unreachable.
            let _ = changed.changed().await;
        }
    }

    /// Applies an event of [`super::watch::watch`]; returns the affected targets. An object that cannot be parsed keeps
    /// its last row.
    pub fn event(&self, event: &watcher::Event<Guard<K>>) -> BTreeSet<Key> {
        match event {
            watcher::Event::Apply(Guard(Ok(object))) => self.apply(object),
            watcher::Event::Delete(object) => self.delete(&Key::of(object)),
            watcher::Event::Init => {
                self.state.write().incoming.clear();
                BTreeSet::new()
            }
            watcher::Event::InitApply(Guard(Ok(object))) => {
                let key = Key::of(object);
                let row = self.project(object);
                let mut state = self.state.write();
                state
                    .versions
                    .extend(version(object).map(|version| (key.clone(), version)));
                if let Some(row) = row.unwrap_or_else(|_panicked| state.rows.get(&key).cloned()) {
                    state.incoming.insert(key, row);
                }
                BTreeSet::new()
            }
            watcher::Event::InitApply(guard @ Guard(Err(error))) => {
                warn!(object = %Key::of(guard), %error, "an object cannot be read, its last known state is kept");
                let mut state = self.state.write();
                let key = Key::of(guard);
                if let Some(row) = state.rows.get(&key).cloned() {
                    state.incoming.insert(key, row);
                }
                BTreeSet::new()
            }
            watcher::Event::Apply(guard @ Guard(Err(error))) => {
                warn!(object = %Key::of(guard), %error, "an object cannot be read, its last known state is kept");
                BTreeSet::new()
            }
            watcher::Event::InitDone => {
                let incoming = std::mem::take(&mut self.state.write().incoming);
                self.reset(incoming)
            }
        }
    }

    /// Applies an object that this process wrote. The response may arrive after a newer watch event: an older version
    /// is ignored.
    pub fn written(&self, object: &K) {
        let known = self.state.read().versions.get(&Key::of(object)).copied();
        if known.is_none_or(|known| version(object).is_none_or(|written| written >= known)) {
            self.apply(object);
        }
    }

    /// Applies an added or changed object. Returns the targets that the old and the new row affect; none if the row is
    /// unchanged.
    pub fn apply(&self, object: &K) -> BTreeSet<Key> {
        let key = Key::of(object);
        if let Some(version) = version(object) {
            self.state.write().versions.insert(key.clone(), version);
        }
        match self.project(object) {
            Ok(Some(row)) => self.put(key, row),
            Ok(None) => self.delete(&key),
            // It keeps its last row, like an object that cannot be parsed.
            Err(_panicked) => BTreeSet::new(),
        }
    }

    /// The row of an object. A panic over one object does not end the watch.
    fn project(&self, object: &K) -> Result<Option<R>, Panicked> {
        let before = self.succeed.as_ref().zip(self.get(&Key::of(object)));
        let row = || match &before {
            Some((succeed, before)) => succeed(object, before),
            None => (self.row)(object),
        };
        isolated(row).inspect_err(|panicked| panicked.log(&format!("reading the object {}", Key::of(object))))
    }

    /// Removes a deleted object; returns the affected targets.
    pub fn delete(&self, key: &Key) -> BTreeSet<Key> {
        let mut state = self.state.write();
        state.versions.remove(key);
        match state.rows.remove(key) {
            Some(old) => {
                let targets = (self.targets)(key, &old);
                state.unlink(key, &targets);
                self.changed.send_replace(());
                targets.into_iter().collect()
            }
            None => BTreeSet::new(),
        }
    }

    /// Replaces all rows by those of a complete list; returns the affected targets.
    pub fn reset(&self, rows: BTreeMap<Key, R>) -> BTreeSet<Key> {
        let gone: Vec<Key> = {
            let state = self.state.read();
            state
                .rows
                .keys()
                .filter(|key| !rows.contains_key(*key))
                .cloned()
                .collect()
        };
        let mut concerned = BTreeSet::new();
        for key in gone {
            concerned.extend(self.delete(&key));
        }
        for (key, row) in rows {
            concerned.extend(self.put(key, row));
        }
        self.synced.send_replace(true);
        concerned
    }

    fn put(&self, key: Key, row: R) -> BTreeSet<Key> {
        let mut state = self.state.write();
        let old = state.rows.get(&key);
        if old == Some(&row) {
            return BTreeSet::new();
        }
        let concerned = match (old, &self.concern) {
            (Some(old), Some(concern)) => Some(concern(&key, old, &row)),
            (None, _) | (_, None) => None,
        };
        let before = old.map(|old| (self.targets)(&key, old)).unwrap_or_default();
        let after = (self.targets)(&key, &row);
        if before != after {
            state.unlink(&key, &before);
            for target in &after {
                state.about.entry(target.clone()).or_default().insert(key.clone());
            }
        }
        state.rows.insert(key, row);
        self.changed.send_replace(());
        concerned.map_or_else(|| before.into_iter().chain(after).collect(), BTreeSet::from_iter)
    }
}

fn version(object: &impl Resource) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

impl<R> State<R> {
    fn unlink(&mut self, key: &Key, targets: &[Key]) {
        for target in targets {
            if let Some(keys) = self.about.get_mut(target) {
                keys.remove(key);
                if keys.is_empty() {
                    self.about.remove(target);
                }
            }
        }
    }
}

impl<K, R: fmt::Debug> fmt::Debug for Index<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("rows", &self.state.read().rows)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;

    fn object(name: &str, target: Option<&str>) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                namespace: Some("ns".to_owned()),
                name: Some(name.to_owned()),
                labels: target.map(|target| BTreeMap::from([("for".to_owned(), target.to_owned())])),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn index() -> Index<ConfigMap, String> {
        Index::new(
            |object: &ConfigMap| object.labels().get("for").cloned(),
            |key, target| vec![Key::new(key.namespace.clone(), target.clone())],
        )
    }

    fn names(keys: BTreeSet<Key>) -> Vec<String> {
        keys.into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn a_change_of_a_row_that_is_of_many_concerns_those_of_which_something_changed() {
        let each = |row: &Vec<String>| -> Vec<Key> { row.iter().map(|name| Key::new("ns", name)).collect() };
        let row = |object: &ConfigMap| -> Option<Vec<String>> {
            let all = object.labels().get("for")?;
            Some(all.split('.').map(str::to_owned).collect())
        };
        let index: Index<ConfigMap, Vec<String>> = Index::new(row, move |_, row: &Vec<String>| each(row))
            .concerning(move |_, before, row| {
                let differ = before
                    .iter()
                    .filter(|name| !row.contains(name))
                    .chain(row.iter().filter(|name| !before.contains(name)));
                each(&differ.cloned().collect())
            })
            .succeeding(move |object, before| {
                let mut row = row(object)?;
                row.sort_by_key(|name| !before.contains(name));
                Some(row)
            });
        assert_eq!(names(index.apply(&object("a", Some("x.y")))), ["x", "y"]);
        assert_eq!(names(index.apply(&object("a", Some("z.y")))), ["x", "z"]);
        let kept = index.get(&Key::new("ns", "a"));
        assert_eq!(
            kept.as_deref(),
            Some(&["y".to_owned(), "z".to_owned()][..]),
            "what succeeds is kept"
        );
        let about = |target: &str| index.about(&Key::new("ns", target)).len();
        assert_eq!((about("x"), about("y"), about("z")), (0, 1, 1));
        assert_eq!(names(index.delete(&Key::new("ns", "a"))), ["y", "z"]);
    }

    #[test]
    fn an_answer_that_comes_later_than_the_watch_changes_nothing() {
        let index = index();
        let at = |version: &str, target: &str| {
            let mut object = object("a", Some(target));
            object.metadata.resource_version = Some(version.to_owned());
            object
        };
        let row = || index.get(&Key::new("ns", "a")).unwrap();
        index.apply(&at("9", "created"));
        index.apply(&at("10", "ready"));
        index.written(&at("9", "created"));
        assert_eq!(row(), "ready");
        index.written(&at("11", "changed"));
        assert_eq!(row(), "changed");
        index.delete(&Key::new("ns", "a"));
        index.written(&at("9", "created"));
        assert_eq!(
            row(),
            "created",
            "a deleted object does not affect a re-created one"
        );
    }

    #[test]
    fn a_change_concerns_old_and_new_targets() {
        let index = index();
        assert_eq!(names(index.apply(&object("a", Some("x")))), ["x"]);
        assert_eq!(
            names(index.apply(&object("a", Some("x")))),
            Vec::<String>::new(),
            "an unchanged row affects no targets"
        );
        assert_eq!(names(index.apply(&object("a", Some("y")))), ["x", "y"]);
        assert_eq!(
            names(index.apply(&object("a", None))),
            ["y"],
            "a row that is of no more interest"
        );
        assert_eq!(names(index.apply(&object("b", Some("z")))), ["z"]);
        assert_eq!(names(index.delete(&Key::new("ns", "b"))), ["z"]);
        assert_eq!(index.all_targets(), BTreeSet::new());
    }

    #[test]
    fn only_a_complete_list_removes() {
        let index = index();
        index.event(&watcher::Event::Apply(Guard(Ok(object("a", Some("x"))))));
        index.event(&watcher::Event::Init);
        index.event(&watcher::Event::InitApply(Guard(Ok(object("b", Some("x"))))));
        assert!(!index.is_synced());
        assert_eq!(
            index.about(&Key::new("ns", "x")).len(),
            1,
            "a list that is not complete changes nothing"
        );
        assert_eq!(names(index.event(&watcher::Event::InitDone)), ["x"]);
        assert!(index.is_synced());
        let rows: Vec<String> = index
            .about(&Key::new("ns", "x"))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(rows, ["b"]);
    }

    #[test]
    fn an_object_over_which_reading_panics_keeps_its_row() {
        let index: Index<ConfigMap, String> = Index::new(
            |object: &ConfigMap| {
                let target = object.labels().get("for").cloned();
                assert!(target.as_deref() != Some("panic"), "as the test wants it");
                target
            },
            |key, target| vec![Key::new(key.namespace.clone(), target.clone())],
        );
        index.apply(&object("a", Some("x")));
        index.event(&watcher::Event::Apply(Guard(Ok(object("a", Some("panic"))))));
        assert_eq!(index.get(&Key::new("ns", "a")), Some("x".to_owned()));
        index.event(&watcher::Event::Init);
        index.event(&watcher::Event::InitApply(Guard(Ok(object("a", Some("panic"))))));
        index.event(&watcher::Event::InitApply(Guard(Ok(object("b", Some("panic"))))));
        index.event(&watcher::Event::InitApply(Guard(Ok(object("c", Some("y"))))));
        index.event(&watcher::Event::InitDone);
        let rows = index.with(|rows| rows.keys().map(|key| key.name.clone()).collect::<Vec<_>>());
        assert_eq!(rows, ["a", "c"], "the others are read");
    }

    #[test]
    fn an_unreadable_object_keeps_its_row() {
        let index = index();
        index.apply(&object("a", Some("x")));
        let unreadable = || {
            let meta = object("a", None).metadata;
            Guard(Err(kube::core::error_boundary::InvalidObject {
                error: "no".to_owned(),
                metadata: meta,
            }))
        };
        index.event(&watcher::Event::Apply(unreadable()));
        index.event(&watcher::Event::Init);
        index.event(&watcher::Event::InitApply(unreadable()));
        index.event(&watcher::Event::InitDone);
        assert_eq!(index.get(&Key::new("ns", "a")), Some("x".to_owned()));
        index.event(&watcher::Event::Delete(unreadable()));
        assert_eq!(index.get(&Key::new("ns", "a")), None);
    }
}
