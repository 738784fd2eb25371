//! Parts of documents that are shared between versions if they are unchanged, such as the rows of an assemblage.
//!
//! An assemblage of a hundred rows is parsed again whenever one of them changes. A part whose text equals that of a
//! part still in use reuses that part: it is not parsed again, cloning it only increments a reference count, and
//! comparison is by pointer first. Very long texts are not shared.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

use crate::unread::Unread;

/// The longest text that is pooled, in bytes: longer texts are parsed every time.
const MAX_TEXT: usize = 32 * 1024;
/// Minimum number of bytes of texts and parts in a pool before unused parts are removed.
const MIN_SWEEP: usize = 4 * 1024 * 1024;

/// A shared part of a document. Dereferences to the part; modifying a shared part copies it first.
pub struct Shared<T>(Arc<T>);

/// A type whose values can be shared: each type has its own pool.
pub trait Poolable: DeserializeOwned + Send + Sync + 'static {
    /// The pool of this type.
    fn pool() -> &'static Pool<Self>;
}

/// Parts that are in use, by their JSON text.
#[derive(Debug)]
pub struct Pool<T>(Mutex<Option<Kept<T>>>);

#[derive(Debug)]
struct Kept<T> {
    by_text: HashMap<Box<str>, Weak<T>>,
    /// Size of the texts and of the parts, without heap data of the parts.
    bytes: usize,
    sweep_at: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            by_text: HashMap::new(),
            bytes: 0,
            sweep_at: MIN_SWEEP,
        }
    }
}

impl<T> Pool<T> {
    /// An empty pool.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn with<R>(&self, work: impl FnOnce(&mut Kept<T>) -> R) -> R {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(kept.get_or_insert_default())
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: DeserializeOwned> Pool<T> {
    /// The part with this text: an existing one if it is still in use, otherwise a new one.
    fn read(&self, text: &str) -> serde_json::Result<Arc<T>> {
        if text.len() > MAX_TEXT {
            return serde_json::from_str(text).map(Arc::new);
        }
        let kept = self.with(|kept| kept.by_text.get(text).and_then(Weak::upgrade));
        if let Some(part) = kept {
            return Ok(part);
        }
        let part = Arc::new(serde_json::from_str(text)?);
        self.with(|kept| {
            kept.bytes += text.len() + size_of::<T>();
            if kept.bytes >= kept.sweep_at {
                kept.by_text.retain(|_, part| part.strong_count() > 0);
                let sizes = kept.by_text.keys().map(|text| text.len() + size_of::<T>());
                kept.bytes = sizes.sum();
                kept.sweep_at = MIN_SWEEP.max(kept.bytes * 2);
            }
            kept.by_text.insert(text.into(), Arc::downgrade(&part));
        });
        Ok(part)
    }
}

impl<T> Shared<T> {
    /// Whether both point to the same part, and are therefore equal.
    pub fn is(one: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&one.0, &other.0)
    }
}

impl<T: Clone> Shared<T> {
    /// The part, copied if it is shared.
    pub fn into_inner(self) -> T {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(part: T) -> Self {
        Self(Arc::new(part))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Self::is(self, other) || *self.0 == *other.0
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: Default> Default for Shared<T> {
    fn default() -> Self {
        T::default().into()
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Poolable> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let part = match Unread::deserialize(deserializer)? {
            Unread::Text(text) => T::pool().read(text.get()),
            tree @ Unread::Tree(_) => tree.read().map(Arc::new),
        };
        part.map(Self).map_err(serde::de::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for Shared<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, from_value, json};

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Part {
        name: String,
    }

    static POOL: Pool<Part> = Pool::new();

    impl Poolable for Part {
        fn pool() -> &'static Pool<Self> {
            &POOL
        }
    }

    fn part(name: &str) -> Shared<Part> {
        from_str(&json!({ "name": name }).to_string()).unwrap()
    }

    #[test]
    fn equal_texts_are_one_part_and_a_change_is_the_changers_alone() {
        let (one, other) = (part("a"), part("a"));
        assert!(Shared::is(&one, &other));
        assert!(!Shared::is(&one, &part("b")));
        let mut changed = other.clone();
        changed.name.push('!');
        assert_eq!((&*one.name, &*other.name, &*changed.name), ("a", "a", "a!"));
        assert_ne!(one, changed);
        assert_eq!(part("a"), one);
    }

    #[test]
    fn a_part_of_a_tree_equals_that_of_its_text() {
        let tree: Shared<Part> = from_value(json!({"name": "tree"})).unwrap();
        assert_eq!((&*tree.name, &tree), ("tree", &part("tree")));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_each_time() {
        for _ in 0..2 {
            let error = from_str::<Shared<Part>>(r#"{"name": 1}"#).unwrap_err();
            assert!(error.to_string().contains("expected a string"), "{error}");
        }
    }

    #[test]
    fn what_is_not_in_use_is_dropped() {
        let pool = Pool::<Part>::new();
        let used = pool.read(r#"{"name": "used"}"#).unwrap();
        let long = "n".repeat(MAX_TEXT / 2);
        for number in 0..3 * MIN_SWEEP / long.len() {
            drop(pool.read(&format!(r#"{{"name": "{number}{long}"}}"#)));
            let bytes = pool.with(|kept| kept.by_text.keys().map(|text| text.len()).sum::<usize>());
            assert!(bytes <= MIN_SWEEP + MAX_TEXT, "{bytes}");
        }
        assert!(Arc::ptr_eq(&used, &pool.read(r#"{"name": "used"}"#).unwrap()));
        drop(pool.read(&format!(r#"{{"name": "{}"}}"#, "n".repeat(MAX_TEXT))));
        assert!(pool.with(|kept| kept.by_text.keys().all(|text| text.len() <= MAX_TEXT)));
    }
}
