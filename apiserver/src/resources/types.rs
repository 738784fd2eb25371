//! Checks the JSON types of the fields of built-in kinds.

use serde_json::Value;

use crate::builtin::{Scalar, Shape, shape_of};

/// The first field with a wrong type, with the message of Go's decoder.
pub(crate) fn mismatch(type_name: &'static str, object: &Value) -> Option<String> {
    let wrong = below(type_name, shape_of(type_name)?, object)?;
    let owner = wrong.type_name.rsplit('.').next().unwrap_or_default();
    let path: Vec<String> = wrong.path.into_iter().rev().collect();
    let (got, wanted) = (wrong.got, wrong.wanted);
    let path = path.join(".");
    Some(format!(
        "json: cannot unmarshal {got} into Go struct field {owner}.{path} of type {wanted}"
    ))
}

/// A field with a wrong type.
struct Wrong {
    /// The type that has the field.
    type_name: &'static str,
    /// The path to it in reverse order; built only for invalid objects, so that valid ones cost nothing.
    path: Vec<String>,
    got: &'static str,
    wanted: &'static str,
}

impl Wrong {
    fn new(type_name: &'static str, value: &Value, wanted: &'static str) -> Self {
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        Self {
            type_name,
            path: Vec::new(),
            got,
            wanted,
        }
    }

    fn within(mut self, name: &str) -> Self {
        self.path.push(name.to_owned());
        self
    }
}

fn below(type_name: &'static str, shape: &'static Shape, value: &Value) -> Option<Wrong> {
    if value.is_null() {
        return None;
    }
    match (shape, value) {
        (Shape::Named(name, _), _) => below(name, shape_of(name)?, value),
        (Shape::Any | Shape::Raw | Shape::Scalar(Scalar::Untyped), _)
        | (Shape::Scalar(Scalar::Text), Value::String(_))
        | (Shape::Scalar(Scalar::Numeric), Value::Number(_))
        | (Shape::Scalar(Scalar::Boolean), Value::Bool(_)) => None,
        (Shape::Scalar(Scalar::Text), _) => Some(Wrong::new(type_name, value, "string")),
        (Shape::Scalar(Scalar::Numeric), _) => Some(Wrong::new(type_name, value, "int32")),
        (Shape::Scalar(Scalar::Boolean), _) => Some(Wrong::new(type_name, value, "bool")),
        (Shape::Object { fields, .. }, Value::Object(members)) => members
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind"))
            .find_map(|(name, member)| {
                let wrong = below(type_name, &fields.get(name.as_str())?.shape, member)?;
                Some(wrong.within(name))
            }),
        (Shape::Map { element, .. }, Value::Object(members)) => members
            .values()
            .find_map(|member| below(type_name, element, member)),
        (Shape::List(list), Value::Array(items)) => {
            items.iter().find_map(|item| below(type_name, &list.item, item))
        }
        (Shape::Object { .. }, _) => Some(Wrong::new(type_name, value, type_name)),
        (Shape::Map { .. }, _) => Some(Wrong::new(type_name, value, "map")),
        (Shape::List(_), _) => Some(Wrong::new(type_name, value, "[]")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::mismatch;

    fn check(object: &serde_json::Value, expect: Option<&str>) {
        let got = mismatch("apps.v1.Deployment", object);
        assert_eq!(got.as_deref(), expect, "{object}");
    }

    #[test]
    fn wrong_types_are_found_and_named() {
        check(
            &json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}}),
            None,
        );
        let text =
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32";
        check(&json!({"spec": {"replicas": "1"}}), Some(text));
        let text = "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string";
        check(
            &json!({"spec": {"template": {"spec": {"containers": [{"name": 5}]}}}}),
            Some(text),
        );
        check(
            &json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}}),
            None,
        );
    }
}
