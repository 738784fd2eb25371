//! Uniqueness of items in sets, and of keys in list maps.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::cause::Cause;
use super::node::Node;
use super::types::ListType;

/// A cause for the second occurrence of every duplicate.
pub(super) fn duplicates(value: &Value, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if let Some(property) = node.properties.get(name) {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    duplicates(value, property, &path, causes);
                } else if let Some(schema) = node.additional.schema() {
                    duplicates(value, schema, &format!("{path}[{name}]"), causes);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type {
                ListType::Set => twice(items, path, causes),
                ListType::Map => keys_twice(items, node, path, causes),
                ListType::Atomic => {}
            }
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                duplicates(item, schema, &format!("{path}[{index}]"), causes);
            }
        }
        _ => {}
    }
}

fn twice(values: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (index, value) in values.iter().enumerate() {
        let times = counts.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(Cause::duplicate(format!("{path}[{index}]"), value));
        }
    }
}

fn keys_twice(items: &[Value], node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let odd = items
        .iter()
        .enumerate()
        .find(|(_, item)| !item.is_null() && !item.is_object());
    if let Some((index, item)) = odd {
        let detail = "must be an object for an array of list-type map";
        causes.push(Cause::invalid(format!("{path}[{index}]"), item, detail));
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| Value::Object(keys_of(item, &node.list_keys)))
        .collect();
    twice(&keys, path, causes);
}

/// The members of `item` that are keys of its list.
pub(super) fn keys_of(item: &Value, keys: &[String]) -> Map<String, Value> {
    keys.iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
        .collect()
}
