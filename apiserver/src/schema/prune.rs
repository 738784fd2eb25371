//! Pruning: undeclared members are dropped and reported.

use serde_json::{Map, Value};

use super::node::{Additional, Node};

const TYPE_AND_METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops undeclared fields from the resource `object`; returns their paths, sorted.
pub(super) fn resource(object: &mut Value, root: &Node) -> Vec<String> {
    let mut dropped = Vec::new();
    if let Value::Object(members) = object {
        if root.preserve_unknown {
            below_preserved(members, root, true, "", &mut dropped);
        } else {
            declared_only(members, root, true, "", &mut dropped);
        }
    }
    dropped.sort();
    dropped
}

/// Drops fields from `value` that `node` does not declare; the returned paths are relative to `value` and sorted.
pub(super) fn below(value: &mut Value, node: &Node) -> Vec<String> {
    let mut dropped = Vec::new();
    prune(value, Some(node), "", &mut dropped);
    dropped.sort();
    dropped
}

fn prune(value: &mut Value, node: Option<&Node>, path: &str, dropped: &mut Vec<String>) {
    match (value, node) {
        (Value::Object(members), Some(node)) if node.preserve_unknown => {
            below_preserved(members, node, node.embedded, path, dropped);
        }
        (Value::Object(members), Some(node)) => declared_only(members, node, node.embedded, path, dropped),
        (Value::Object(members), None) => {
            dropped.extend(members.keys().map(|key| child(path, key)));
            members.clear();
        }
        (Value::Array(items), Some(node)) if node.preserve_unknown => {
            for (index, item) in items.iter_mut().enumerate() {
                if let (Value::Object(members), Some(node)) = (item, node.items.as_deref()) {
                    let path = format!("{path}[{index}]");
                    below_preserved(members, node, node.embedded, &path, dropped);
                }
            }
        }
        (Value::Array(items), node) => {
            let node = node.and_then(|node| node.items.as_deref());
            for (index, item) in items.iter_mut().enumerate() {
                prune(item, node, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

fn declared_only(
    members: &mut Map<String, Value>,
    node: &Node,
    resource: bool,
    path: &str,
    dropped: &mut Vec<String>,
) {
    members.retain(|key, value| {
        if resource && TYPE_AND_METADATA.contains(&key.as_str()) {
            return true;
        }
        let path = child(path, key);
        let known = match (node.properties.get(key), &node.additional) {
            (Some(property), _) => Some(Some(property)),
            (None, Additional::Schema(schema)) => Some(Some(&**schema)),
            (None, Additional::Any) => Some(None),
            (None, Additional::None) => None,
        };
        match known {
            Some(schema) => prune(value, schema, &path, dropped),
            None => dropped.push(path),
        }
        known.is_some()
    });
}

/// Below `x-kubernetes-preserve-unknown-fields` only declared fields are pruned.
fn below_preserved(
    members: &mut Map<String, Value>,
    node: &Node,
    resource: bool,
    path: &str,
    dropped: &mut Vec<String>,
) {
    for (key, value) in members.iter_mut() {
        let skip = resource && TYPE_AND_METADATA.contains(&key.as_str());
        if let (false, Some(schema)) = (skip, node.member(key)) {
            prune(value, Some(schema), &child(path, key), dropped);
        }
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
