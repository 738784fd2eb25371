//! The parsed values of large objects that were written last: the next write of the same object, which is often soon,
//! does not parse its text again.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::Object;
use crate::meta;
use crate::schema::Schema;

/// How many values are kept.
const MOST: usize = 4;
/// The bytes of text from which on an object is worth it.
const LARGE: usize = 16 * 1024;

/// Parsed values by revision, the oldest first.
#[derive(Default)]
pub(super) struct Recent(Mutex<VecDeque<Kept>>);

struct Kept {
    revision: u64,
    value: Arc<Value>,
    /// The schema by which the value is settled ([`Schema::is_settled`]).
    settled: Option<Arc<Schema>>,
}

impl Recent {
    /// Whether it is worth keeping the value of an object.
    pub(super) fn is_large(object: &Object) -> bool {
        object.json().len() >= LARGE
    }

    /// Keeps the value of `object`, which replaces the version with the revision `previous`.
    pub(super) fn keep(
        &self,
        previous: u64,
        object: &Object,
        mut value: Value,
        settled: Option<Arc<Schema>>,
    ) {
        meta::set_metadata(&mut value, "resourceVersion", object.revision.to_string().into());
        let mut kept = self.0.lock();
        kept.retain(|kept| kept.revision != previous);
        if kept.len() == MOST {
            kept.pop_front();
        }
        kept.push_back(Kept {
            revision: object.revision,
            value: Arc::new(value),
            settled,
        });
    }

    /// The value of an object with this revision, and the schema by which it is settled.
    pub(super) fn get(&self, revision: u64) -> Option<(Arc<Value>, Option<Arc<Schema>>)> {
        let kept = self.0.lock();
        let found = kept.iter().find(|kept| kept.revision == revision);
        found.map(|kept| (Arc::clone(&kept.value), kept.settled.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Stored;
    use super::*;

    fn object(revision: u64, size: usize) -> (Object, Value) {
        let metadata = json!({"name": "a", "resourceVersion": revision.to_string()});
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "x".repeat(size)}});
        (Stored::unsaved(&value), value)
    }

    #[test]
    fn the_last_large_objects_are_kept_as_they_are_stored() {
        let recent = Recent::default();
        assert!(
            !Recent::is_large(&object(1, 10).0),
            "a small object is quick to parse"
        );
        assert!(Recent::is_large(&object(1, LARGE).0));
        for revision in 2..=6 {
            let (large, mut value) = object(revision, LARGE);
            // As a writer passes it: with the version that it replaces.
            meta::set_metadata(&mut value, "resourceVersion", "1".into());
            recent.keep(0, &large, value, None);
            assert_eq!(*recent.get(revision).unwrap().0, large.value());
        }
        assert!(recent.get(2).is_none(), "the oldest is dropped");
        let (next, value) = object(7, LARGE);
        recent.keep(6, &next, value, None);
        assert!(recent.get(6).is_none(), "the version that was replaced");
        assert!(recent.get(3).is_some() && recent.get(7).is_some());
    }
}
