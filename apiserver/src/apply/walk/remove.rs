//! Removes paths from a value.

use serde_json::{Map, Value};

use super::super::element;
use super::super::set::FieldSet;
use super::super::types::{Form, Ty};

/// `value` without `paths`; null if a map or list that lost something is empty.
pub(in super::super) fn remove(value: &Value, paths: &FieldSet, ty: Ty<'_>) -> Value {
    match (ty.atom().fitting(Some(value)).form(), value) {
        (Form::List(list), Value::Array(items)) if list.associative => {
            let kept = items.iter().filter_map(|item| {
                // An item without an element cannot be addressed by a path.
                let Ok(step) = element::list_item_step(&list, item) else {
                    return Some(item.clone());
                };
                if paths.has(&step) {
                    return None;
                }
                Some(
                    paths
                        .below(&step)
                        .map_or_else(|| item.clone(), |below| remove(item, below, list.element)),
                )
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        (Form::Map(map), Value::Object(members)) if !map.atomic => {
            let kept = members.iter().filter_map(|(name, value)| {
                let step = element::field(name);
                if paths.has(&step) {
                    return None;
                }
                let value = match (paths.below(&step), map.member(name)) {
                    (Some(below), Some(ty)) => remove(value, below, ty),
                    _ => value.clone(),
                };
                Some((name.clone(), value))
            });
            let kept: Map<String, Value> = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        (Form::List(_) | Form::Map(_), Value::Array(_) | Value::Object(_)) => Value::Null,
        _ => value.clone(),
    }
}
