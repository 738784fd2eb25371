//! Our result for a file, in the format of kubectl's recorded results: the objects in order, or the error.

use muster_sync::yaml;
use serde_json::Value;

/// The objects of a file. A document that is not a Kubernetes object is an error for kubectl's reader; ours leaves that
/// check to the build.
pub(crate) fn objects(file: &str, bytes: &[u8]) -> Result<Vec<Value>, String> {
    let documents = yaml::documents(file, bytes).map_err(|error| error.to_string())?;
    let mut objects = Vec::new();
    for document in documents {
        let value = document.value().map_err(|error| error.to_string())?;
        let is_text = value["apiVersion"].is_null() || value["apiVersion"].is_string();
        if value["kind"].as_str().is_none_or(str::is_empty) || !is_text {
            return Err(format!("{file}:{}: no object of a kind", document.root.at));
        }
        objects.push(value);
    }
    Ok(objects)
}

/// Equal as numbers if both are numbers: kubectl prints a float beyond 64 bits as an integer.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left == right,
            _ => left.as_f64() == right.as_f64(),
        },
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        (left, right) => left == right,
    }
}
