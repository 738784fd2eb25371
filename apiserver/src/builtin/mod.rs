//! Types of the built-in kinds from the real server's OpenAPI: list types, map keys, patch strategies, atomicity.
//!
//! `table.txt` is committed; [`generate`] makes it from the OpenAPI v3 documents of a kube-apiserver (see
//! `examples/builtin-table.rs`), [`table`] reads it.

mod generate;
mod table;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use generate::generate_type_table;
pub(crate) use table::{Field, Scalar, Shape, Strategy, shape_of};

/// The type of `metadata` of every object.
pub const OBJECT_META: &str = "meta.v1.ObjectMeta";

/// The name of the built-in type of objects of this `apiVersion` and `kind`; `None` for kinds that are not built in.
pub fn type_of(api_version: &str, kind: &str) -> Option<&'static str> {
    table::table().kinds.get(api_version)?.get(kind).copied()
}

/// Drops fields that the built-in type `ty` does not declare and returns their paths (`spec.bogus`), sorted. A type
/// that is not in the table drops nothing.
pub fn prune_builtin(ty: &str, object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    if let Some(shape) = shape_of(ty) {
        prune_below(shape, "", object, &mut dropped);
    }
    dropped.sort();
    dropped
}

/// Drops empty optional lists and maps, as the real server does for built-in objects.
pub fn drop_empty(ty: &str, object: &mut Value) {
    if let Some(shape) = shape_of(ty) {
        drop_empty_below(shape, object);
    }
}

fn drop_empty_below(shape: &'static Shape, value: &mut Value) {
    match (shape.resolved(), value) {
        (Shape::Object { fields, .. }, Value::Object(members)) => members.retain(|name, value| {
            let Some(field) = fields.get(name.as_str()) else {
                return true;
            };
            drop_empty_below(&field.shape, value);
            let empty = match (&field.shape, value) {
                (Shape::List(_), Value::Array(items)) => items.is_empty(),
                (Shape::Map { .. }, Value::Object(members)) => members.is_empty(),
                _ => false,
            };
            field.required || !empty
        }),
        (Shape::Map { element, .. }, Value::Object(members)) => {
            members
                .values_mut()
                .for_each(|value| drop_empty_below(element, value));
        }
        (Shape::List(list), Value::Array(items)) => {
            for item in items {
                drop_empty_below(&list.item, item);
            }
        }
        _ => {}
    }
}

fn prune_below(shape: &'static Shape, path: &str, value: &mut Value, dropped: &mut Vec<String>) {
    match (shape.resolved(), value) {
        (Shape::Object { fields, .. }, Value::Object(members)) => members.retain(|name, value| {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            let field = fields.get(name.as_str());
            match field {
                Some(field) => prune_below(&field.shape, &path, value, dropped),
                None => dropped.push(path),
            }
            field.is_some()
        }),
        (Shape::Map { element, .. }, Value::Object(members)) => {
            for (name, value) in members {
                prune_below(element, &format!("{path}.{name}"), value, dropped);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_below(&list.item, &format!("{path}[{index}]"), item, dropped);
            }
        }
        _ => {}
    }
}
