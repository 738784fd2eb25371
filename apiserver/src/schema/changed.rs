//! The parts of an object that a write may have changed. The others have passed the same schema before: they are not
//! pruned, defaulted, validated and compared again, which are most of the cost of a small change to a large object.

use std::collections::BTreeMap;

use json_patch::PatchOperation;
use serde_json::Value;

/// The parts of a value that may differ from the value that it replaces. Where it is optional, `None` is a value that
/// does not differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The value as a whole.
    Whole,
    /// Only these members, or items by index.
    Parts(BTreeMap<String, Self>),
}

impl Changed {
    /// The parts that a JSON patch may change.
    pub fn by_json_patch(operations: &[PatchOperation]) -> Self {
        let mut changed = Self::Parts(BTreeMap::new());
        for operation in operations {
            match operation {
                PatchOperation::Test(_) => {}
                PatchOperation::Replace(replace) => changed.mark(replace.path.tokens()),
                // It changes which members or items there are.
                PatchOperation::Add(add) => changed.mark_parent(&add.path),
                PatchOperation::Remove(remove) => changed.mark_parent(&remove.path),
                PatchOperation::Copy(copy) => changed.mark_parent(&copy.path),
                PatchOperation::Move(moved) => {
                    changed.mark_parent(&moved.from);
                    changed.mark_parent(&moved.path);
                }
            }
        }
        changed
    }

    /// The parts that a merge patch may change.
    pub fn by_merge_patch(patch: &Value) -> Self {
        match patch {
            Value::Object(members) => {
                let parts = members.iter();
                let parts = parts.map(|(name, value)| (name.clone(), Self::by_merge_patch(value)));
                Self::Parts(parts.collect())
            }
            _ => Self::Whole,
        }
    }

    /// The same parts, and all of a member.
    #[must_use]
    pub fn and_member(mut self, name: &str) -> Self {
        if let Self::Parts(parts) = &mut self {
            parts.insert(name.to_owned(), Self::Whole);
        }
        self
    }

    /// The changed parts of a member.
    pub fn member(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Whole => Some(self),
            Self::Parts(parts) => parts.get(name),
        }
    }

    /// The changed parts of an item.
    pub fn item(&self, index: usize) -> Option<&Self> {
        match self {
            Self::Whole => Some(self),
            Self::Parts(parts) => parts.get(index.to_string().as_str()),
        }
    }

    fn mark_parent(&mut self, path: &json_patch::jsonptr::Pointer) {
        match path.parent() {
            Some(parent) => self.mark(parent.tokens()),
            None => *self = Self::Whole,
        }
    }

    fn mark<'a>(&mut self, mut path: impl Iterator<Item = json_patch::jsonptr::Token<'a>>) {
        let Some(step) = path.next() else {
            *self = Self::Whole;
            return;
        };
        if let Self::Parts(parts) = self {
            let part = parts.entry(step.decoded().into_owned());
            part.or_insert_with(|| Self::Parts(BTreeMap::new())).mark(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn by_json_patch(patch: Value) -> Changed {
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        Changed::by_json_patch(&patch)
    }

    /// Every path of `new` whose value differs from that of `old` is marked, or is below a marked one.
    fn covers(changed: Option<&Changed>, old: Option<&Value>, new: &Value) -> bool {
        match (changed, old, new) {
            (Some(Changed::Whole), ..) => true,
            (Some(changed), Some(Value::Object(old)), Value::Object(new)) => {
                let mut members = new.iter();
                members.all(|(name, new)| covers(changed.member(name), old.get(name), new))
                    && old
                        .keys()
                        .all(|name| new.contains_key(name) || changed.member(name).is_some())
            }
            (Some(changed), Some(Value::Array(old)), Value::Array(new)) => {
                let mut items = new.iter().enumerate();
                old.len() == new.len()
                    && items.all(|(index, new)| covers(changed.item(index), old.get(index), new))
            }
            // Another form: a merge patch makes an object of what was none.
            (Some(changed), _, Value::Object(new)) => new.keys().all(|name| changed.member(name).is_some()),
            (_, old, new) => old == Some(new),
        }
    }

    #[test]
    fn the_parts_cover_what_a_json_patch_changes() {
        let old = json!({"a": {"b": [{"c": 1}, {"c": 2, "d/e": 3}], "f": "g"}, "h": {"i": 1}, "j": null});
        for patch in [
            json!([]),
            json!([{"op": "test", "path": "/a/f", "value": "g"}]),
            json!([{"op": "replace", "path": "/a/b/1/c", "value": 5}]),
            json!([{"op": "replace", "path": "/a/b/1/d~1e", "value": 5}]),
            json!([{"op": "add", "path": "/a/b/0", "value": {}}]),
            json!([{"op": "add", "path": "/a/b/-", "value": 7}, {"op": "replace", "path": "/h/i", "value": 2}]),
            json!([{"op": "add", "path": "/a/k", "value": 7}]),
            json!([{"op": "remove", "path": "/a/b/0"}]),
            json!([{"op": "remove", "path": "/h"}]),
            json!([{"op": "move", "from": "/h/i", "path": "/a/b/0"}]),
            json!([{"op": "copy", "from": "/a/b", "path": "/h/l"}]),
            json!([{"op": "replace", "path": "", "value": {"a": 1}}]),
            json!([{"op": "replace", "path": "/a/b/0", "value": 1}, {"op": "remove", "path": "/a/b/0"}]),
        ] {
            let mut new = old.clone();
            let operations: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
            json_patch::patch(&mut new, &operations).unwrap();
            let changed = by_json_patch(patch.clone());
            assert!(covers(Some(&changed), Some(&old), &new), "{patch}: {changed:?}");
        }
        let one = by_json_patch(json!([{"op": "replace", "path": "/a/b/1", "value": 5}]));
        let list = one.member("a").and_then(|a| a.member("b")).unwrap();
        assert_eq!((list.item(0), list.item(1)), (None, Some(&Changed::Whole)));
        assert_eq!((one.member("h"), list.member("f")), (None, None));
    }

    #[test]
    fn the_parts_cover_what_a_merge_patch_changes() {
        let old = json!({"a": {"b": [1, 2], "c": 3}, "d": 4});
        for patch in [
            json!({}),
            json!({"a": {"b": [1]}}),
            json!({"a": null}),
            json!({"a": {"c": null, "e": {"f": 1}}}),
            json!({"d": {"g": null}}),
            json!({"d": {"g": 1}}),
        ] {
            let mut new = old.clone();
            json_patch::merge(&mut new, &patch);
            let changed = Changed::by_merge_patch(&patch);
            assert!(covers(Some(&changed), Some(&old), &new), "{patch}: {changed:?}");
        }
    }
}
