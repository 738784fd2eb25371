//! Pruning: undeclared members are dropped and reported.

use serde_json::{Map, Value};

use super::changed::Changed;
use super::node::{Additional, Node};
use super::path::Path;

const TYPE_AND_METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops undeclared fields from the changed parts of the resource `object`; returns their paths, sorted.
pub(super) fn resource(object: &mut Value, root: &Node, changed: &Changed) -> Vec<String> {
    let mut dropped = Vec::new();
    if let Value::Object(members) = object {
        let prune = if root.preserve_unknown {
            below_preserved
        } else {
            declared_only
        };
        prune(members, root, true, changed, Path::Root(""), &mut dropped);
    }
    dropped.sort();
    dropped
}

/// Drops fields from `value` that `node` does not declare; the returned paths are relative to `value` and sorted.
pub(super) fn below(value: &mut Value, node: &Node) -> Vec<String> {
    let mut dropped = Vec::new();
    prune(value, Some(node), &Changed::Whole, Path::Root(""), &mut dropped);
    dropped.sort();
    dropped
}

fn prune(
    value: &mut Value,
    node: Option<&Node>,
    changed: &Changed,
    path: Path<'_>,
    dropped: &mut Vec<String>,
) {
    match (value, node) {
        (Value::Object(members), Some(node)) if node.preserve_unknown => {
            below_preserved(members, node, node.embedded, changed, path, dropped);
        }
        (Value::Object(members), Some(node)) => {
            declared_only(members, node, node.embedded, changed, path, dropped);
        }
        (Value::Object(members), None) => {
            dropped.extend(members.keys().map(|key| Path::Field(&path, key).to_string()));
            members.clear();
        }
        (Value::Array(items), Some(node)) if node.preserve_unknown => {
            for (index, item) in items.iter_mut().enumerate() {
                if let (Value::Object(members), Some(node), Some(changed)) =
                    (item, node.items.as_deref(), changed.item(index))
                {
                    let path = Path::Item(&path, index);
                    below_preserved(members, node, node.embedded, changed, path, dropped);
                }
            }
        }
        (Value::Array(items), node) => {
            let node = node.and_then(|node| node.items.as_deref());
            for (index, item) in items.iter_mut().enumerate() {
                if let Some(changed) = changed.item(index) {
                    prune(item, node, changed, Path::Item(&path, index), dropped);
                }
            }
        }
        _ => {}
    }
}

fn declared_only(
    members: &mut Map<String, Value>,
    node: &Node,
    resource: bool,
    changed: &Changed,
    path: Path<'_>,
    dropped: &mut Vec<String>,
) {
    let mut unknown = Vec::new();
    for (key, value) in members.iter_mut() {
        if resource && TYPE_AND_METADATA.contains(&key.as_str()) {
            continue;
        }
        let Some(changed) = changed.member(key) else {
            continue;
        };
        let path = Path::Field(&path, key);
        match (node.properties.get(key), &node.additional) {
            (Some(property), _) => prune(value, Some(property), changed, path, dropped),
            (None, Additional::Schema(schema)) => prune(value, Some(schema), changed, path, dropped),
            (None, Additional::Any) => prune(value, None, changed, path, dropped),
            (None, Additional::None) => {
                dropped.push(path.to_string());
                unknown.push(key.clone());
            }
        }
    }
    for key in unknown {
        members.remove(&key);
    }
}

/// Below `x-kubernetes-preserve-unknown-fields` only declared fields are pruned.
fn below_preserved(
    members: &mut Map<String, Value>,
    node: &Node,
    resource: bool,
    changed: &Changed,
    path: Path<'_>,
    dropped: &mut Vec<String>,
) {
    for (key, value) in members.iter_mut() {
        let skip = resource && TYPE_AND_METADATA.contains(&key.as_str());
        if let (false, Some(schema), Some(changed)) = (skip, node.member(key), changed.member(key)) {
            prune(value, Some(schema), changed, Path::Field(&path, key), dropped);
        }
    }
}
