//! Which old value stands for which new one: members by name, items of list maps by their keys, nothing else.

use serde_json::Value;

use super::lists::keys_of;
use super::node::{ListType, Node};

/// The old value of the member `name`.
pub(super) fn member<'a>(old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    old.and_then(|old| old.get(name))
}

/// The old value of `item` in a list with the schema `list`.
pub(super) fn item<'a>(old: Option<&'a Value>, list: &Node, item: &Value) -> Option<&'a Value> {
    if list.list_type != ListType::Map {
        return None;
    }
    let keys = keys_of(item, &list.list_keys);
    if keys.len() != list.list_keys.len() {
        return None;
    }
    old?.as_array()?
        .iter()
        .find(|old| keys_of(old, &list.list_keys) == keys)
}
