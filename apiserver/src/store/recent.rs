//! The parsed values of large objects that were written last: the next write of the same object, which is often soon,
//! does not parse its text again.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::Object;
use crate::meta;

/// How many values are kept.
const MOST: usize = 4;
/// The bytes of text from which on an object is worth it.
const LARGE: usize = 16 * 1024;

/// Parsed values by revision, the oldest first.
#[derive(Default)]
pub(super) struct Recent(Mutex<VecDeque<(u64, Arc<Value>)>>);

impl Recent {
    /// Keeps the value of `object`, which replaces the version with the revision `previous`.
    pub(super) fn keep(&self, previous: u64, object: &Object, mut value: Value) {
        if object.json().len() < LARGE {
            return;
        }
        meta::set_metadata(&mut value, "resourceVersion", object.revision.to_string().into());
        let mut kept = self.0.lock();
        kept.retain(|(revision, _)| *revision != previous);
        if kept.len() == MOST {
            kept.pop_front();
        }
        kept.push_back((object.revision, Arc::new(value)));
    }

    /// The value of an object with this revision.
    pub(super) fn get(&self, revision: u64) -> Option<Arc<Value>> {
        let kept = self.0.lock();
        let found = kept.iter().find(|(kept, _)| *kept == revision);
        found.map(|(_, value)| Arc::clone(value))
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
        let (small, value) = object(1, 10);
        recent.keep(0, &small, value);
        assert_eq!(recent.get(1), None, "a small object is quick to parse");
        for revision in 2..=6 {
            let (large, mut value) = object(revision, LARGE);
            // As a writer passes it: with the version that it replaces.
            meta::set_metadata(&mut value, "resourceVersion", "1".into());
            recent.keep(0, &large, value);
            assert_eq!(recent.get(revision).as_deref(), Some(&large.value()));
        }
        assert_eq!(recent.get(2), None, "the oldest is dropped");
        let (next, value) = object(7, LARGE);
        recent.keep(6, &next, value);
        assert_eq!(recent.get(6), None, "the version that was replaced");
        assert!(recent.get(3).is_some() && recent.get(7).is_some());
    }
}
