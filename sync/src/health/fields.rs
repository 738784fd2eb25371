//! Reads fields of objects that may be missing or have another type.

use serde_json::Value;

/// A condition, with the fields that health uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

/// The string at a JSON pointer.
pub(super) fn string_at<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

/// The integer at a JSON pointer.
pub(super) fn integer(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}

/// The integer at a JSON pointer, or the server's default.
pub(super) fn integer_or(object: &Value, pointer: &str, default: i64) -> i64 {
    integer(object, pointer).unwrap_or(default)
}

/// The items of the list at a JSON pointer.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The conditions of an object.
pub(super) fn conditions(object: &Value) -> impl Iterator<Item = Condition<'_>> {
    list(object, "/status/conditions").map(|condition| {
        let part = |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default();
        Condition {
            kind: part("type"),
            status: part("status"),
            reason: part("reason"),
            message: part("message"),
        }
    })
}

/// The condition of one type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<Condition<'a>> {
    conditions(object).find(|condition| condition.kind == kind)
}

/// The label selector of a workload as a string, if it has one that a list request accepts.
pub(super) fn selector(workload: &Value) -> Option<String> {
    let labels = workload
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let mut terms: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    for expression in list(workload, "/spec/selector/matchExpressions") {
        let key = string_at(expression, "/key")?;
        let values: Vec<&str> = list(expression, "/values").filter_map(Value::as_str).collect();
        terms.push(match string_at(expression, "/operator")? {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!terms.is_empty()).then(|| terms.join(","))
}
