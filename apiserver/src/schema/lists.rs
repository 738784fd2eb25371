//! Uniqueness of items in sets, and of keys in list maps.

use std::collections::HashMap;
use std::hash::Hash;

use serde_json::{Map, Value};

use super::cause::Cause;
use super::changed::Changed;
use super::node::Node;
use super::path::Path;
use super::types::ListType;

/// A cause for the second occurrence of every duplicate in the changed lists.
pub(super) fn duplicates(
    value: &Value,
    node: &Node,
    path: Path<'_>,
    changed: &Changed,
    causes: &mut Vec<Cause>,
) {
    if !node.has_unique_lists {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let Some(changed) = changed.member(name) else {
                    continue;
                };
                if let Some(property) = node.properties.get(name) {
                    duplicates(value, property, Path::Field(&path, name), changed, causes);
                } else if let Some(schema) = node.additional.schema() {
                    duplicates(value, schema, Path::Key(&path, name), changed, causes);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type {
                ListType::Set => twice(items.iter(), |index| items[index].clone(), path, causes),
                ListType::Map => keys_twice(items, node, path, causes),
                ListType::Atomic => {}
            }
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                if let Some(changed) = changed.item(index) {
                    duplicates(item, schema, Path::Item(&path, index), changed, causes);
                }
            }
        }
        _ => {}
    }
}

/// A cause for the second occurrence of every key; `printed` is the value with the key, for the message.
fn twice<K: Hash + Eq>(
    keys: impl Iterator<Item = K>,
    printed: impl Fn(usize) -> Value,
    path: Path<'_>,
    causes: &mut Vec<Cause>,
) {
    let mut counts: HashMap<K, usize> = HashMap::new();
    for (index, key) in keys.enumerate() {
        let times = counts.entry(key).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(Cause::duplicate(
                Path::Item(&path, index).to_string(),
                &printed(index),
            ));
        }
    }
}

fn keys_twice(items: &[Value], node: &Node, path: Path<'_>, causes: &mut Vec<Cause>) {
    let odd = items
        .iter()
        .enumerate()
        .find(|(_, item)| !item.is_null() && !item.is_object());
    if let Some((index, item)) = odd {
        let detail = "must be an object for an array of list-type map";
        causes.push(Cause::invalid(Path::Item(&path, index).to_string(), item, detail));
        return;
    }
    let printed = |index: usize| Value::Object(keys_of(&items[index], &node.list_keys));
    match node.list_keys.as_slice() {
        [key] => twice(items.iter().map(|item| item.get(key)), printed, path, causes),
        keys => {
            let keys = items.iter().map(|item| values_of(item, keys));
            twice(keys, printed, path, causes);
        }
    }
}

fn values_of<'a>(item: &'a Value, keys: &[String]) -> Vec<Option<&'a Value>> {
    keys.iter().map(|key| item.get(key)).collect()
}

/// The members of `item` that are keys of its list.
pub(super) fn keys_of(item: &Value, keys: &[String]) -> Map<String, Value> {
    keys.iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
        .collect()
}
