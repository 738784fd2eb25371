//! Merging two values of one type: the right one wins, lists and maps by their type.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::element;
use super::super::types::{Form, ListTy, MapTy, Ty};

/// `right` merged into `left`; both have been validated. `None` if nothing is left.
pub(in super::super) fn merge_values(
    left: Option<&Value>,
    right: Option<&Value>,
    ty: Ty<'_>,
) -> Option<Value> {
    let atom = ty.atom();
    let deciding = if right.is_some() { right } else { left };
    match atom.fitting(deciding).form() {
        Form::Scalar(_) => leaf(left, right),
        Form::List(list) => merge_lists(left, right, &list),
        Form::Map(map) => merge_maps(left, right, &map),
    }
}

fn leaf(left: Option<&Value>, right: Option<&Value>) -> Option<Value> {
    right.or(left).cloned()
}

fn merge_maps(left: Option<&Value>, right: Option<&Value>, map: &MapTy<'_>) -> Option<Value> {
    let (lefts, rights) = (left.and_then(Value::as_object), right.and_then(Value::as_object));
    let empty = |side: Option<&Map<String, Value>>| side.is_none_or(Map::is_empty);
    if map.atomic || (empty(lefts) && empty(rights)) {
        return leaf(left, right);
    }
    let names: BTreeSet<&String> = lefts
        .into_iter()
        .flat_map(Map::keys)
        .chain(rights.into_iter().flat_map(Map::keys))
        .collect();
    let mut merged = Map::new();
    for name in names {
        let (left, right) = (
            lefts.and_then(|map| map.get(name)),
            rights.and_then(|map| map.get(name)),
        );
        let value = match map.member(name) {
            Some(ty) => merge_values(left, right, ty),
            None => leaf(left, right),
        };
        if let Some(value) = value {
            merged.insert(name.clone(), value);
        }
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

fn merge_lists(left: Option<&Value>, right: Option<&Value>, list: &ListTy<'_>) -> Option<Value> {
    let items = |side: Option<&'_ Value>| side.and_then(Value::as_array).cloned().unwrap_or_default();
    let (lefts, rights) = (items(left), items(right));
    if !list.associative || (lefts.is_empty() && rights.is_empty()) {
        return leaf(left, right);
    }
    let (lefts, rights) = (Side::of(&lefts, list), Side::of(&rights, list));
    let merged = interleave(&lefts, &rights, |left, right| {
        merge_values(left, right, list.element)
    });
    (!merged.is_empty()).then_some(Value::Array(merged))
}

/// One of the two lists: its items with their elements.
struct Side<'a> {
    items: Vec<(String, &'a Value)>,
    /// Items by element; `None` if an element occurs more than once.
    by_step: BTreeMap<String, Option<&'a Value>>,
}

impl<'a> Side<'a> {
    fn of(items: &'a [Value], list: &ListTy<'_>) -> Self {
        // Validation has made sure that every item has an element.
        let items: Vec<(String, &Value)> = items
            .iter()
            .filter_map(|item| Some((element::list_item_step(list, item).ok()?, item)))
            .collect();
        let mut by_step = BTreeMap::new();
        for (step, item) in &items {
            by_step
                .entry(step.clone())
                .and_modify(|known| *known = None)
                .or_insert(Some(*item));
        }
        Self { items, by_step }
    }

    fn has(&self, step: &str) -> bool {
        self.by_step.contains_key(step)
    }

    fn get(&self, step: &str) -> Option<&'a Value> {
        self.by_step.get(step).copied().flatten()
    }
}

/// Merges the items of both lists: the order of the right list wins; items only in the left one keep their position in
/// between.
fn interleave(
    left: &Side<'_>,
    right: &Side<'_>,
    merge: impl Fn(Option<&Value>, Option<&Value>) -> Option<Value>,
) -> Vec<Value> {
    let mut shared = right
        .items
        .iter()
        .map(|(step, _)| step)
        .filter(|step| left.has(step));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut merged = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < left.items.len() || r < right.items.len() {
        let (at_left, at_right) = (left.items.get(l), right.items.get(r));
        if let (Some((step, _)), Some((right_step, _))) = (at_left, at_right) {
            if step == right_step {
                done.insert(step);
                merged.extend(merge(left.get(step), right.get(step)));
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if right.has(step) && next_shared.is_some_and(|next| next != step) {
                // In both lists, but not the next one on the right.
                l += 1;
                continue;
            }
        }
        if let Some((step, item)) = at_left {
            if !right.has(step) {
                merged.extend(merge(Some(item), None));
                l += 1;
                continue;
            }
            if done.contains(step.as_str()) {
                l += 1;
            }
        }
        if let Some((step, _)) = at_right {
            done.insert(step);
            merged.extend(merge(left.get(step), right.get(step)));
            r += 1;
            if next_shared.is_some_and(|next| next == step) {
                next_shared = shared.next();
            }
        }
    }
    merged
}
