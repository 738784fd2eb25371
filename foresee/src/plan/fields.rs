//! Compares the fields of specs or objects. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::model::Field;

/// The most characters shown of a value.
const SHOWN: usize = 60;

/// The leaves that differ, ordered by path. Lists of equal length are compared item by item, others as a whole.
pub(crate) fn between(from: &Value, to: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    compare(String::new(), Some(from), Some(to), &mut fields);
    fields
}

fn compare(path: String, from: Option<&Value>, to: Option<&Value>, fields: &mut Vec<Field>) {
    let empty = Map::new();
    let both = match (from, to) {
        (Some(Value::Object(from)), Some(Value::Object(to))) => Some((from, to)),
        // A new or removed subtree is reported by its leaves.
        (Some(Value::Object(from)), None) if !from.is_empty() => Some((from, &empty)),
        (None, Some(Value::Object(to))) if !to.is_empty() => Some((&empty, to)),
        _ => None,
    };
    if let Some((from, to)) = both {
        let keys: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for key in keys {
            let path = match path.as_str() {
                "" => key.clone(),
                _ => format!("{path}.{key}"),
            };
            compare(path, from.get(key), to.get(key), fields);
        }
        return;
    }
    match (from, to) {
        (Some(Value::Array(from)), Some(Value::Array(to))) if from.len() == to.len() => {
            for (place, (from, to)) in from.iter().zip(to).enumerate() {
                compare(format!("{path}[{place}]"), Some(from), Some(to), fields);
            }
        }
        _ if from == to => {}
        _ => fields.push(Field {
            path,
            from: from.map(abbreviated),
            to: to.map(abbreviated),
        }),
    }
}

/// A value, abbreviated.
fn abbreviated(value: &Value) -> String {
    match value {
        Value::String(text) => muster_fleet::text::cut(text, SHOWN),
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            match items.len() {
                1 => "1 entry".to_owned(),
                many => format!("{many} entries"),
            }
        }
        other => muster_fleet::text::cut(&other.to_string(), SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(from: &Value, to: &Value, expect: &[&str]) {
        let line = |field: Field| {
            let text = |side: Option<String>| side.unwrap_or_else(|| "-".to_owned());
            format!("{} {} {}", field.path, text(field.from), text(field.to))
        };
        let lines: Vec<String> = between(from, to).into_iter().map(line).collect();
        assert_eq!(lines, expect, "{from} {to}");
    }

    #[test]
    fn leaves_that_differ() {
        check(&json!({"a": 1, "b": "x"}), &json!({"a": 1, "b": "x"}), &[]);
        check(
            &json!({"git": {"version": {"tag": "v1"}}}),
            &json!({"git": {"version": {"tag": "v2"}}}),
            &["git.version.tag v1 v2"],
        );
        check(
            &json!({"version": {"tag": "v1"}}),
            &json!({"version": {"commit": "c1"}}),
            &["version.commit - c1", "version.tag v1 -"],
        );
        check(
            &json!({"stages": [{"name": "a"}]}),
            &json!({"stages": [{"name": "b"}]}),
            &["stages[0].name a b"],
        );
        check(
            &json!({"stages": [{"name": "a"}]}),
            &json!({}),
            &["stages 1 entry -"],
        );
        check(&json!({}), &json!({"batch": {}}), &["batch - {}"]);
        check(
            &json!({"in": ["a", "b"]}),
            &json!({"in": ["a"]}),
            &[r#"in ["a","b"] ["a"]"#],
        );
    }
}
