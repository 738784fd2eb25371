//! Checks that a value has its type, with the messages of the real server, which print Go values.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::element;
use super::super::types::{Form, ListTy, MapTy, Ty};
use crate::builtin::Scalar;

/// All errors in `value` as one text; with `duplicates`, list items may have the same keys.
pub(in super::super) fn validate(value: &Value, ty: Ty<'_>, duplicates: bool) -> Result<(), String> {
    let mut walk = Walk {
        duplicates,
        path: Vec::new(),
        errors: Vec::new(),
    };
    walk.value(value, ty);
    match walk.errors.as_slice() {
        [] => Ok(()),
        [error] => Err(error.clone()),
        errors => Err(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

struct Walk {
    duplicates: bool,
    path: Vec<String>,
    errors: Vec<String>,
}

impl Walk {
    fn error(&mut self, text: &str) {
        let path = element::printed_path(&self.path);
        self.errors.push(if path.is_empty() {
            text.to_owned()
        } else {
            format!("{path}: {text}")
        });
    }

    fn value(&mut self, value: &Value, ty: Ty<'_>) {
        match (ty.atom().fitting(Some(value)).form(), value) {
            (_, Value::Null) => {}
            (Form::Map(map), Value::Object(members)) => self.map(&map, members),
            (Form::Map(_), other) => self.error(&format!("expected map, got &{{{}}}", go_v(other))),
            (Form::List(list), Value::Array(items)) => self.list(&list, items),
            (Form::List(_), other) => self.error(&format!("expected list, got &{{{}}}", go_v(other))),
            (Form::Scalar(scalar), value) => self.scalar(scalar, value),
        }
    }

    fn map(&mut self, map: &MapTy<'_>, members: &Map<String, Value>) {
        for (name, value) in members {
            self.path.push(element::field(name));
            let known = map.member(name);
            match known {
                Some(ty) => self.value(value, ty),
                None => self.error("field not declared in schema"),
            }
            self.path.pop();
            if known.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, list: &ListTy<'_>, items: &[Value]) {
        let mut keys = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let mut step = format!("i:{index}");
            if list.associative {
                step = match element::list_item_step(list, item) {
                    Ok(step) => step,
                    Err(error) => return self.error(&format!("element {index}: {error}")),
                };
                if !keys.insert(step.clone()) && !self.duplicates {
                    self.error(&format!("duplicate entries for key {}", element::printed(&step)));
                }
            }
            self.path.push(step);
            self.value(item, list.element);
            self.path.pop();
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        match (scalar, value) {
            (Scalar::Numeric, Value::Number(_))
            | (Scalar::Text, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => {}
            (Scalar::Numeric, other) => {
                self.error(&format!(
                    "expected numeric (int or float), got {}",
                    go_type(other)
                ));
            }
            (Scalar::Text, other) => {
                self.error(&format!(
                    "expected string, got &value.valueUnstructured{{Value:{}}}",
                    go_sharp_v(other)
                ));
            }
            (Scalar::Boolean, other) => self.error(&format!("expected boolean, got &{{{}}}", go_v(other))),
            (Scalar::Untyped, other) => self.error(&format!("expected any scalar, got &{{{}}}", go_v(other))),
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value like Go's `%v`.
fn go_v(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(go_v), " ")),
        Value::Object(members) => {
            format!(
                "map[{}]",
                joined(
                    members
                        .iter()
                        .map(|(name, value)| format!("{name}:{}", go_v(value))),
                    " "
                )
            )
        }
        other => other.to_string(),
    }
}

/// Formats a value like Go's `%#v`.
fn go_sharp_v(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => format!(
            "[]interface {{}}{{{}}}",
            joined(items.iter().map(go_sharp_v), ", ")
        ),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{name:?}:{}", go_sharp_v(value)));
            format!("map[string]interface {{}}{{{}}}", joined(members, ", "))
        }
        other => other.to_string(),
    }
}

fn joined(parts: impl Iterator<Item = String>, separator: &str) -> String {
    parts.collect::<Vec<_>>().join(separator)
}
