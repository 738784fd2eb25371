//! Whether the fields of an object of a built-in kind have the JSON types that they must have.

use serde_json::Value;

use crate::builtin::{Scalar, Shape, shape_of};

/// The first field of a wrong type, in the words of Go's decoder.
pub fn mismatch(type_name: &'static str, object: &Value) -> Option<String> {
    below(
        &Place {
            type_name,
            path: String::new(),
        },
        shape_of(type_name)?,
        object,
    )
}

/// Where a value is: the type that has the field, and the path from the object.
struct Place {
    type_name: &'static str,
    path: String,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        };
        Self {
            type_name: self.type_name,
            path,
        }
    }

    fn wrong(&self, value: &Value, wanted: &str) -> String {
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let owner = self.type_name.rsplit('.').next().unwrap_or_default();
        format!(
            "json: cannot unmarshal {got} into Go struct field {owner}.{} of type {wanted}",
            self.path
        )
    }
}

fn below(place: &Place, shape: &'static Shape, value: &Value) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match (shape, value) {
        (Shape::Named(name, _), _) => below(
            &Place {
                type_name: name,
                path: place.path.clone(),
            },
            shape_of(name)?,
            value,
        ),
        (Shape::Any | Shape::Raw | Shape::Scalar(Scalar::Untyped), _)
        | (Shape::Scalar(Scalar::Text), Value::String(_))
        | (Shape::Scalar(Scalar::Numeric), Value::Number(_))
        | (Shape::Scalar(Scalar::Boolean), Value::Bool(_)) => None,
        (Shape::Scalar(Scalar::Text), _) => Some(place.wrong(value, "string")),
        (Shape::Scalar(Scalar::Numeric), _) => Some(place.wrong(value, "int32")),
        (Shape::Scalar(Scalar::Boolean), _) => Some(place.wrong(value, "bool")),
        (Shape::Object { fields, .. }, Value::Object(members)) => members
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind"))
            .find_map(|(name, member)| below(&place.field(name), &fields.get(name.as_str())?.shape, member)),
        (Shape::Map { element, .. }, Value::Object(members)) => {
            members.values().find_map(|member| below(place, element, member))
        }
        (Shape::List(list), Value::Array(items)) => {
            items.iter().find_map(|item| below(place, &list.item, item))
        }
        (Shape::Object { .. }, _) => Some(place.wrong(value, place.type_name)),
        (Shape::Map { .. }, _) => Some(place.wrong(value, "map")),
        (Shape::List(_), _) => Some(place.wrong(value, "[]")),
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
