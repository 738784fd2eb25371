//! Defaulting: nulls that the schema does not allow are dropped, defaults are applied, outer before inner.

use serde_json::Value;

use super::changed::Changed;
use super::node::Node;

/// Drops nulls that are neither nullable nor have a default from the changed parts, then applies defaults to them.
pub(super) fn apply_defaults(value: &mut Value, node: &Node, changed: &Changed) {
    if has_null(value, changed) {
        drop_nulls(value, Some(node));
    }
    fill(value, node, changed);
}

fn has_null(value: &Value, changed: &Changed) -> bool {
    let has =
        |value: &Value, changed: Option<&Changed>| changed.is_some_and(|changed| has_null(value, changed));
    match value {
        Value::Null => true,
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| has(value, changed.member(name))),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .any(|(index, item)| has(item, changed.item(index))),
        _ => false,
    }
}

fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(members) => members.retain(|key, value| {
            let schema = node.and_then(|node| node.member(key));
            let stays = !value.is_null() || schema.is_none_or(|node| node.nullable || node.default.is_some());
            if stays {
                drop_nulls(value, schema);
            }
            stays
        }),
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            for item in items {
                drop_nulls(item, schema);
            }
        }
        _ => {}
    }
}

/// Applies defaults to the changed parts.
pub(super) fn fill(value: &mut Value, node: &Node, changed: &Changed) {
    if !node.has_defaults {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, property) in &node.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                if members
                    .get(name)
                    .is_none_or(|value| value.is_null() && !property.nullable)
                {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in members.iter_mut() {
                if let (Some(schema), Some(changed)) = (node.member(name), changed.member(name)) {
                    replace_null(value, schema);
                    fill(value, schema, changed);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                if let Some(changed) = changed.item(index) {
                    replace_null(item, schema);
                    fill(item, schema, changed);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Node) {
    if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
        *value = default.clone();
    }
}
