//! The validation errors of an API server, reworded to say what to write instead. Pure.

use std::fmt;

use muster_api::{Duration, duration};
use muster_apiserver::schema::{Cause, reason};
use muster_fleet::near;
use serde_json::{Map, Value};

use super::field_position::steps;

/// The most fields of the same name that are suggested.
const ALIKE: usize = 2;

/// The field of a cause that is about the whole object.
const NO_FIELD: &str = "<nil>";

/// A validation error, and its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field: `spec.rollout.stages[0].soak`.
    pub field: String,
    /// Rest of the sentence.
    pub message: String,
    /// Whether the message says what to write; the API server's does not.
    pub is_advice: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            NO_FIELD => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

impl Problem {
    /// A field that the definition does not have.
    pub fn unknown(path: String, definition: &Value) -> Self {
        let last = steps(&path).last().unwrap_or_default();
        let parent = steps(&path).count().saturating_sub(1);
        let fields = at(definition, steps(&path).take(parent)).and_then(properties);
        let names = fields.into_iter().flat_map(Map::keys).map(String::as_str);
        let mut meant = near::offer(last, names);
        let mut same = Vec::new();
        if meant.is_empty() {
            same_name(definition, "", last, &mut same);
        }
        // A field of this name exists elsewhere, or in several places of which none is more likely.
        same.sort_by_key(String::len);
        if (1..=ALIKE).contains(&same.len()) {
            meant = format!(" (did you mean {}?)", same.join(", "));
        }
        Self {
            message: format!("unknown field{meant}"),
            is_advice: !meant.is_empty(),
            field: path,
        }
    }

    /// A value that the definition does not allow.
    pub fn of(cause: &Cause, object: &Value, definition: &Value) -> Self {
        let node = at(definition, steps(&cause.field));
        let value = value_at(object, &cause.field);
        let advice = node.zip(value).and_then(|(node, value)| {
            not_a_duration(node, value).or_else(|| not_in_the_list(cause, node, value))
        });
        Self {
            field: cause.field.clone(),
            is_advice: advice.is_some(),
            message: advice.unwrap_or_else(|| cause.message.clone()),
        }
    }
}

fn not_a_duration(node: &Value, value: &Value) -> Option<String> {
    let is_duration = node["pattern"] == duration::PATTERN;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(_) => "10".to_owned(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    if !is_duration || value.is_string() && text.parse::<Duration>().is_ok() {
        return None;
    }
    let seconds = Some(format!("{text}s")).filter(|text| text.parse::<Duration>().is_ok());
    let such = seconds.unwrap_or_else(|| "10s".to_owned());
    Some(format!(
        "{value} is not a duration: write a duration such as {such}"
    ))
}

/// The value is not one of the enum, and similar to one of them.
fn not_in_the_list(cause: &Cause, node: &Value, value: &Value) -> Option<String> {
    let listed = node["enum"]
        .as_array()
        .filter(|_| cause.reason == reason::NOT_SUPPORTED)?;
    let meant = near::offer(value.as_str()?, listed.iter().filter_map(Value::as_str));
    (!meant.is_empty()).then(|| format!("{}{meant}", cause.message))
}

/// The part of a definition that is about a field.
fn at<'a, 'b>(definition: &'a Value, mut path: impl Iterator<Item = &'b str>) -> Option<&'a Value> {
    path.try_fold(definition, |node, step| {
        let field = properties(node).and_then(|fields| fields.get(step));
        let item = || node.get("items").filter(|_| step.parse::<usize>().is_ok());
        field.or_else(item).or_else(|| node.get("additionalProperties"))
    })
}

fn properties(node: &Value) -> Option<&Map<String, Value>> {
    node.get("properties")?.as_object()
}

fn value_at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path).try_fold(object, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?), // a segment that is not a number has no item
        _ => None,
    })
}

/// The paths of all fields with this name.
fn same_name(node: &Value, path: &str, name: &str, found: &mut Vec<String>) {
    for (field, below) in properties(node).into_iter().flatten() {
        let path = match path {
            "" => field.clone(),
            _ => format!("{path}.{field}"),
        };
        same_name(below, &path, name, found);
        if field == name {
            found.push(path);
        }
    }
    if let Some(items) = node.get("items") {
        same_name(items, &format!("{path}[]"), name, found);
    }
}
