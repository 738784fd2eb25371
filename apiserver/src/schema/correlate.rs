//! Correlates old with new values: members by name, items of list maps by their keys, nothing else.

use serde_json::Value;

use super::node::Node;
use super::types::ListType;

/// The old value of the member `name`.
pub(super) fn member<'a>(old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    old.and_then(|old| old.get(name))
}

/// The old value of `item` at `index` of a list with the schema `list`.
pub(super) fn correlated_item<'a>(
    old: Option<&'a Value>,
    list: &Node,
    index: usize,
    item: &Value,
) -> Option<&'a Value> {
    let keys = &list.list_keys;
    if list.list_type != ListType::Map || keys.iter().any(|key| item.get(key).is_none()) {
        return None;
    }
    let is_it = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
    let old = old?.as_array()?;
    // Most items keep their index.
    old.get(index).filter(is_it).or_else(|| old.iter().find(is_it))
}
