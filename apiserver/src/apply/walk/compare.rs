//! Which paths of a value were added, changed, removed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::element;
use super::super::set::FieldSet;
use super::super::types::{Atom, Form, ListTy, MapTy, Ty};
use crate::schema::Changed;

/// The difference between two values of one type.
#[derive(Debug, Default)]
pub(in super::super) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    /// The comparison without everything below `paths`.
    pub(in super::super) fn without(self, paths: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(paths),
            modified: self.modified.recursive_difference(paths),
            removed: self.removed.recursive_difference(paths),
        }
    }
}

/// What changed from `old` to `new`, which may differ only in the `changed` parts; both have been validated (items with
/// the same keys allowed).
pub(in super::super) fn compare(
    old: Option<&Value>,
    new: Option<&Value>,
    ty: Ty<'_>,
    changed: &Changed,
) -> Comparison {
    let mut walk = Walk {
        path: Vec::new(),
        found: Comparison::default(),
    };
    walk.values(old, new, ty, changed);
    walk.found
}

struct Walk {
    path: Vec<String>,
    found: Comparison,
}

impl Walk {
    fn values(&mut self, old: Option<&Value>, new: Option<&Value>, ty: Ty<'_>, changed: &Changed) {
        let (was, is) = (ty.atom().fitting(old), ty.atom().fitting(new));
        let leaf = match (old, new) {
            (_, None) => self.form(&was, old, new, changed),
            (Some(_), Some(_)) if !was.same_forms(&is) => {
                self.form(&was, old, new, changed);
                self.form(&is, old, new, changed)
            }
            _ => self.form(&is, old, new, changed),
        };
        if !leaf {
            match (old, new) {
                (None, Some(_)) => self.found.added.insert(&self.path),
                (Some(_), None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Whether the value was compared as a whole.
    fn form(&mut self, atom: &Atom<'_>, old: Option<&Value>, new: Option<&Value>, changed: &Changed) -> bool {
        match atom.form() {
            Form::Scalar(_) => self.leaf(old, new),
            Form::List(list) => {
                let empty = |side: Option<&Value>| side.and_then(Value::as_array).is_none_or(Vec::is_empty);
                if !list.associative || (empty(old) && empty(new)) {
                    return self.leaf(old, new);
                }
                self.lists(old, new, &list, changed);
                false
            }
            Form::Map(map) => {
                let empty = |side: Option<&Value>| side.and_then(Value::as_object).is_none_or(Map::is_empty);
                if map.atomic || (empty(old) && empty(new)) {
                    return self.leaf(old, new);
                }
                self.maps(old, new, &map, changed);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !equal(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn maps(&mut self, old: Option<&Value>, new: Option<&Value>, map: &MapTy<'_>, changed: &Changed) {
        let (olds, news) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
        let names: BTreeSet<&String> = olds
            .into_iter()
            .flat_map(Map::keys)
            .chain(news.into_iter().flat_map(Map::keys))
            .collect();
        for name in names {
            let Some(changed) = changed.member(name) else {
                continue;
            };
            let (old, new) = (
                olds.and_then(|map| map.get(name)),
                news.and_then(|map| map.get(name)),
            );
            if old == new {
                continue;
            }
            self.path.push(element::field(name));
            self.values(old, new, map.member(name).unwrap_or(Ty::Deduced), changed);
            self.path.pop();
        }
    }

    fn lists(&mut self, old: Option<&Value>, new: Option<&Value>, list: &ListTy<'_>, changed: &Changed) {
        let (olds, news) = differing(items(old), items(new), list, changed);
        self.items_by_step(olds, news, list);
    }

    fn items_by_step(&mut self, olds: Vec<&Value>, news: Vec<&Value>, list: &ListTy<'_>) {
        let (olds, news) = (steps(olds, list), steps(news, list));
        let all: BTreeSet<&String> = olds.keys().chain(news.keys()).collect();
        for step in all {
            let of = |side: &BTreeMap<String, Vec<_>>| side.get(step).cloned().unwrap_or_default();
            let (was, is): (Vec<&Value>, Vec<&Value>) = (of(&olds), of(&news));
            self.path.push(step.clone());
            match (was.len(), is.len()) {
                (0 | 1, 0 | 1) if was != is => {
                    self.values(
                        was.first().copied(),
                        is.first().copied(),
                        list.element,
                        &Changed::Whole,
                    );
                }
                (0 | 1, 0 | 1) => {}
                (0 | 1, _) => {
                    if let Some(was) = was.first() {
                        self.values(Some(was), None, list.element, &Changed::Whole);
                    }
                    self.found.added.insert(&self.path);
                }
                (_, 0 | 1) => {
                    if let Some(is) = is.first() {
                        self.values(None, Some(is), list.element, &Changed::Whole);
                    }
                    self.found.removed.insert(&self.path);
                }
                _ if was != is => self.found.modified.insert(&self.path),
                _ => {}
            }
            self.path.pop();
        }
    }
}

fn items(side: Option<&Value>) -> &[Value] {
    side.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The items without those that are equal at the same index: in a long list of which a few items changed, the others
/// need no element. All items if an equal one could be the duplicate of another, which only invalid lists have.
fn differing<'a>(
    old: &'a [Value],
    new: &'a [Value],
    list: &ListTy<'_>,
    changed: &Changed,
) -> (Vec<&'a Value>, Vec<&'a Value>) {
    let is_equal = |index: usize| changed.item(index).is_none() || old.get(index) == new.get(index);
    let split = |side: &'a [Value]| -> (Vec<&'a Value>, Vec<&'a Value>) {
        let (mut equal, mut changed) = (Vec::new(), Vec::new());
        for (index, item) in side.iter().enumerate() {
            if is_equal(index) { &mut equal } else { &mut changed }.push(item);
        }
        (equal, changed)
    };
    let ((equal, olds), (_, news)) = (split(old), split(new));
    let is_few = olds.len() + news.len() <= FEW;
    let is_of_its_own =
        |item: &Value| !list.keys.is_empty() && has_own_key(item, olds.iter().chain(&news), list.keys);
    if is_few && equal.into_iter().all(is_of_its_own) {
        (olds, news)
    } else {
        (old.iter().collect(), new.iter().collect())
    }
}

/// Up to how many changed items are compared with all others.
const FEW: usize = 8;

/// Whether `item` has all keys of its list, and none of `others` has the same ones.
fn has_own_key<'a>(item: &Value, mut others: impl Iterator<Item = &'a &'a Value>, keys: &[String]) -> bool {
    keys.iter().all(|key| item.get(key).is_some())
        && others.all(|other| {
            keys.iter()
                .any(|key| other.get(key).is_some_and(|value| Some(value) != item.get(key)))
        })
}

/// The items by element; duplicates are possible in an invalid list.
fn steps<'a>(items: Vec<&'a Value>, list: &ListTy<'_>) -> BTreeMap<String, Vec<&'a Value>> {
    let mut steps = BTreeMap::<String, Vec<&Value>>::new();
    for item in items {
        // Validation has made sure that every item has an element.
        if let Ok(step) = element::list_item_step(list, item) {
            steps.entry(step).or_default().push(item);
        }
    }
    steps
}

/// Whether values are equal; numbers are compared by value, not by notation.
pub(in super::super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() != other.is_f64() && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| equal(one, other)))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::TypeRef;
    use super::*;
    use crate::schema::Schema;

    /// All lists of up to `most` of these items.
    fn lists(items: &[Value], most: usize) -> Vec<Vec<Value>> {
        let mut all = vec![Vec::new()];
        let mut longest = all.clone();
        for _ in 0..most {
            let longer = |list: &Vec<Value>| {
                let list = list.clone();
                items
                    .iter()
                    .map(move |item| [list.as_slice(), std::slice::from_ref(item)].concat())
            };
            longest = longest.iter().flat_map(longer).collect();
            all.extend(longest.iter().cloned());
        }
        all
    }

    /// Also in lists that are not valid: with duplicates, and without a key.
    #[test]
    fn leaving_out_equal_items_does_not_change_the_difference() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {"list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}},
        }}}))
        .unwrap();
        let atom = Ty::of(TypeRef::Custom(&schema)).atom();
        let Form::Map(object) = atom.form() else {
            panic!("not an object")
        };
        let Form::List(list) = object.member("list").unwrap().atom().form() else {
            panic!("not a list")
        };
        let items = [
            json!({"name": "a", "size": 1}),
            json!({"name": "a", "size": 2}),
            json!({"name": "b", "size": 1}),
            json!({"size": 1}),
        ];
        let all = lists(&items, 3);
        let mut left_out = 0;
        for old in &all {
            for new in &all {
                let found = |filtered: bool| {
                    let mut walk = Walk {
                        path: Vec::new(),
                        found: Comparison::default(),
                    };
                    let (olds, news) = if filtered {
                        differing(old, new, &list, &Changed::Whole)
                    } else {
                        (old.iter().collect(), new.iter().collect())
                    };
                    let left_out = old.len() - olds.len();
                    walk.items_by_step(olds, news, &list);
                    let Comparison {
                        added,
                        modified,
                        removed,
                    } = walk.found;
                    (left_out, [added.paths(), modified.paths(), removed.paths()])
                };
                let (count, filtered) = found(true);
                assert_eq!(filtered, found(false).1, "{old:?} {new:?}");
                left_out += count;
            }
        }
        assert!(left_out > 100, "{left_out} items were left out");
    }
}
