//! Path elements of fieldsV1: `f:NAME`, `k:KEYS`, `v:VALUE`, `i:INDEX`.

use serde_json::{Map, Value};

use super::types::{Form, ListTy};

/// The element for the member `name`.
pub(super) fn field(name: &str) -> String {
    format!("f:{name}")
}

/// The name, if the element is a member.
pub(super) fn field_name(element: &str) -> Option<&str> {
    element.strip_prefix("f:")
}

/// Whether the element is an item of a list map.
pub(super) fn is_key(element: &str) -> bool {
    element.starts_with("k:")
}

/// The element for `item` of an associative list.
pub(super) fn list_item_step(list: &ListTy<'_>, item: &Value) -> Result<String, String> {
    if list.keys.is_empty() {
        set_item(item)
    } else {
        map_item(list, item)
    }
}

/// Normalizes an element that the server or a client wrote: sorted keys, JSON without spaces.
pub(super) fn canonical(element: &str) -> String {
    let rewritten = match element.split_at_checked(2) {
        Some(("k:", keys)) => serde_json::from_str::<Map<String, Value>>(keys)
            .ok()
            .map(|keys| key(&keys)),
        Some(("v:", value)) => serde_json::from_str::<Value>(value)
            .ok()
            .map(|value| format!("v:{value}")),
        _ => None,
    };
    // An element that cannot be parsed is kept: it matches nothing.
    rewritten.unwrap_or_else(|| element.to_owned())
}

/// An element as printed in messages: `.name`, `[name="a"]`, `[="v"]`, `[0]`.
pub(super) fn printed(element: &str) -> String {
    match element.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("i:", index)) => format!("[{index}]"),
        Some(("v:", value)) => format!("[={value}]"),
        Some(("k:", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let mut parts: Vec<String> = keys
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            parts.sort();
            format!("[{}]", parts.join(","))
        }
        _ => element.to_owned(),
    }
}

/// A path as printed in messages.
pub(super) fn printed_path(path: &[String]) -> String {
    path.iter().map(|element| printed(element)).collect()
}

fn map_item(list: &ListTy<'_>, item: &Value) -> Result<String, String> {
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let Form::Map(element) = list.element.atom().fitting(Some(item)).form() else {
        return Err("associative list may not have non-map types".to_owned());
    };
    let mut keys = Map::new();
    for name in list.keys {
        if let Some(value) = members.get(name).or_else(|| element.default_of(name)) {
            keys.insert(name.clone(), value.clone());
        }
    }
    if keys.is_empty() {
        let names: Vec<String> = list.keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(key(&keys))
}

fn key(keys: &Map<String, Value>) -> String {
    let mut parts: Vec<(&String, &Value)> = keys.iter().collect();
    parts.sort_by_key(|(name, _)| *name);
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
        .collect();
    format!("k:{{{}}}", parts.join(","))
}

fn set_item(item: &Value) -> Result<String, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(format!("v:{scalar}")),
    }
}
