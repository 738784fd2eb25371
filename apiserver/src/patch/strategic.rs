//! Strategic merge patch.

use serde_json::{Map, Value};

use super::PatchError;
use crate::builtin::{Field, Shape, Strategy, shape_of};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

type Object = Map<String, Value>;

/// `object` with `patch` merged into it.
pub(super) fn apply_strategic(object: &Value, patch: &Value, ty: &str) -> Result<Value, PatchError> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            Ok(Value::Object(merge_object(object.clone(), patch, shape_of(ty))?))
        }
        _ => Ok(patch.clone()),
    }
}

fn merge_object(
    mut object: Object,
    patch: &Object,
    shape: Option<&'static Shape>,
) -> Result<Object, PatchError> {
    match patch.get(PATCH).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            return Ok(patch
                .iter()
                .filter(|(key, _)| *key != PATCH)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect());
        }
        Some(Some("delete")) => return Ok(Object::new()),
        Some(_) => return Err(malformed(PATCH)),
    }
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        let keys = keys.as_array().ok_or_else(|| malformed(RETAIN_KEYS))?;
        object.retain(|key, _| keys.iter().any(|kept| kept == key.as_str()));
    }
    for (key, directive) in patch {
        if let Some(name) = key.strip_prefix(DELETE) {
            delete_items(&mut object, name, directive)?;
        }
    }
    for (key, value) in patch {
        if is_directive(key) {
            continue;
        }
        merge_member(&mut object, patch, key, value, shape)?;
    }
    for (key, order) in patch {
        // Lists that are only reordered.
        if let (Some(name), Some(order)) = (key.strip_prefix(ORDER), order.as_array())
            && !patch.contains_key(name)
            && let Some(Value::Array(items)) = object.get(name).cloned()
        {
            let merge_key = strategy_of(shape, name).merge_key;
            object.insert(
                name.to_owned(),
                Value::Array(in_order(&items, &items, order, merge_key.as_deref())),
            );
        }
    }
    Ok(object)
}

fn merge_member(
    object: &mut Object,
    patch: &Object,
    key: &str,
    value: &Value,
    shape: Option<&'static Shape>,
) -> Result<(), PatchError> {
    if value.is_null() {
        object.remove(key);
        return Ok(());
    }
    let strategy = strategy_of(shape, key);
    let merged = match (object.get(key), value) {
        (Some(Value::Object(old)), Value::Object(new)) if !strategy.replace => {
            Value::Object(merge_object(old.clone(), new, member_of(shape, key))?)
        }
        (Some(Value::Array(old)), Value::Array(new)) if strategy.merge => {
            let order = patch.get(&format!("{ORDER}{key}")).and_then(Value::as_array);
            let item = member_of(shape, key).and_then(item_of);
            Value::Array(merge_list(old, new, order, strategy.merge_key.as_deref(), item)?)
        }
        (_, value) => without_directives(value),
    };
    object.insert(key.to_owned(), merged);
    Ok(())
}

fn merge_list(
    old: &[Value],
    patch: &[Value],
    order: Option<&Vec<Value>>,
    merge_key: Option<&str>,
    item: Option<&'static Shape>,
) -> Result<Vec<Value>, PatchError> {
    let directive = |item: &Value| item.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    if patch
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"))
    {
        let kept = patch
            .iter()
            .filter(|item| directive(item).as_deref() != Some("replace"));
        return Ok(kept.map(without_directives).collect());
    }
    let mut merged: Vec<Value> = old.to_vec();
    let mut patched: Vec<Value> = Vec::new();
    for value in patch {
        let deletes = directive(value).as_deref() == Some("delete");
        let known = merged.iter().position(|other| same(other, value, merge_key));
        match (known, value) {
            (Some(at), _) if deletes => {
                merged.remove(at);
                continue;
            }
            (None, _) if deletes => continue,
            (Some(at), Value::Object(new)) => {
                let Value::Object(before) = merged[at].clone() else {
                    continue;
                };
                merged[at] = Value::Object(merge_object(before, new, item)?);
            }
            (Some(_), _) => {}
            (None, value) => {
                if merge_key.is_some_and(|key| value.get(key).is_none()) {
                    let key = merge_key.unwrap_or_default();
                    let text = format!("map: {value} does not contain declared merge key: {key}");
                    return Err(PatchError::Malformed(text));
                }
                merged.push(without_directives(value));
            }
        }
        patched.push(value.clone());
    }
    Ok(in_order(&merged, old, order.unwrap_or(&patched), merge_key))
}

/// Items in `order`, in its order; the others in the order of `old`, each before the first ordered item that followed
/// it.
fn in_order(items: &[Value], old: &[Value], order: &[Value], merge_key: Option<&str>) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item, merge_key));
    let (mut named, mut others): (Vec<&Value>, Vec<&Value>) =
        items.iter().partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(old, item));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    let mut all = Vec::new();
    while let (Some(left), Some(right)) = (others.peek(), named.peek()) {
        let before =
            matches!((place(old, left), place(old, right)), (Some(left), Some(right)) if left < right);
        all.extend(if before { others.next() } else { named.next() });
    }
    all.into_iter().chain(others).chain(named).cloned().collect()
}

fn same(one: &Value, other: &Value, merge_key: Option<&str>) -> bool {
    match merge_key {
        Some(key) => one.get(key).is_some() && one.get(key) == other.get(key),
        None => one == other,
    }
}

fn delete_items(object: &mut Object, name: &str, gone: &Value) -> Result<(), PatchError> {
    let gone = gone.as_array().ok_or_else(|| malformed(DELETE))?;
    if let Some(Value::Array(items)) = object.get_mut(name) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

/// The patch as a new value, where the object has none: without directives and nulls.
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members
                .iter()
                .filter(|(key, value)| !is_directive(key) && !value.is_null());
            Value::Object(
                kept.map(|(key, value)| (key.clone(), without_directives(value)))
                    .collect(),
            )
        }
        Value::Array(items) => {
            let kept = items
                .iter()
                .filter(|item| item.get(PATCH).and_then(Value::as_str) != Some("delete"));
            Value::Array(kept.map(without_directives).collect())
        }
        scalar => scalar.clone(),
    }
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(ORDER) || key.starts_with(DELETE)
}

fn malformed(directive: &str) -> PatchError {
    PatchError::Malformed(format!("invalid value of the patch directive {directive:?}"))
}

fn field_of(shape: Option<&'static Shape>, name: &str) -> Option<&'static Field> {
    match shape?.resolved() {
        Shape::Object { fields, .. } => fields.get(name),
        _ => None,
    }
}

fn strategy_of(shape: Option<&'static Shape>, name: &str) -> Strategy {
    field_of(shape, name)
        .map(|field| field.strategy.clone())
        .unwrap_or_default()
}

fn member_of(shape: Option<&'static Shape>, name: &str) -> Option<&'static Shape> {
    match shape?.resolved() {
        Shape::Object { fields, .. } => fields.get(name).map(|field| field.shape.resolved()),
        Shape::Map { element, .. } => Some(element.resolved()),
        _ => None,
    }
}

fn item_of(shape: &'static Shape) -> Option<&'static Shape> {
    match shape {
        Shape::List(list) => Some(list.item.resolved()),
        _ => None,
    }
}
