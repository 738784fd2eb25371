//! A validation error of an object, as in `details.causes` of a Status.

use std::fmt;

use serde_json::{Value, json};

/// The field of a cause about the object itself.
const NO_FIELD: &str = "<nil>";

const RULES_NOT_CHECKED: &str = concat!(
    "some validation rules were not checked because the object was invalid; ",
    "correct the existing errors to complete validation"
);

/// Constants of `metav1.CauseType`.
pub mod reason {
    /// The value is not allowed.
    pub const INVALID: &str = "FieldValueInvalid";
    /// The value is absent.
    pub const REQUIRED: &str = "FieldValueRequired";
    /// The value has the wrong JSON type.
    pub const TYPE_INVALID: &str = "FieldValueTypeInvalid";
    /// The value is not one of an enumeration.
    pub const NOT_SUPPORTED: &str = "FieldValueNotSupported";
    /// The value is longer than allowed.
    pub const TOO_LONG: &str = "FieldValueTooLong";
    /// The list or map has more entries than allowed.
    pub const TOO_MANY: &str = "FieldValueTooMany";
    /// The value, or its key, occurs more than once in the list.
    pub const DUPLICATE: &str = "FieldValueDuplicate";
    /// The value must be absent, or must not change.
    pub const FORBIDDEN: &str = "FieldValueForbidden";
    /// The value refers to something that does not exist.
    pub const NOT_FOUND: &str = "FieldValueNotFound";
    /// Another manager of the field applied another value.
    pub const MANAGER_CONFLICT: &str = "FieldManagerConflict";
}

/// One cause: what is wrong (`reason`, `message`) and where (`field`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The machine-readable type of the error, one of [`reason`].
    pub reason: String,
    /// The text without the field: `Invalid value: "ABC": should match '^[a-z]+$'`.
    pub message: String,
    /// The path of the field: `spec.list[0].name`; `<nil>` for the object itself.
    pub field: String,
}

impl Cause {
    /// A cause with the given parts; an empty `field` is the object itself.
    pub fn new(reason: &str, field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut field = field.into();
        if field.is_empty() {
            NO_FIELD.clone_into(&mut field);
        }
        Self {
            reason: reason.to_owned(),
            message: message.into(),
            field,
        }
    }

    /// The rules were not checked because of the other causes.
    pub fn incomplete_check() -> Self {
        Self::invalid("", &Value::Null, RULES_NOT_CHECKED)
    }

    /// Whether it only reports that rules were not checked.
    pub fn is_incomplete_check(&self) -> bool {
        self.field == NO_FIELD && self.message.contains(RULES_NOT_CHECKED)
    }

    /// `Required value: DETAIL`.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(reason::REQUIRED, field, with_detail("Required value", detail))
    }

    /// `Forbidden: DETAIL`.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(reason::FORBIDDEN, field, with_detail("Forbidden", detail))
    }

    /// `Invalid value: VALUE: DETAIL`, the value printed as the real server does.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(
            reason::INVALID,
            field,
            with_detail(&format!("Invalid value: {}", printed(value)), detail),
        )
    }

    /// `Invalid value: DETAIL`, for values that the real server does not print (objects and lists in CEL rules).
    pub fn invalid_unprinted(field: impl Into<String>, detail: &str) -> Self {
        Self::new(reason::INVALID, field, with_detail("Invalid value", detail))
    }

    /// `Invalid value: VALUE: DETAIL` for a value of the wrong JSON type.
    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self {
            reason: reason::TYPE_INVALID.to_owned(),
            ..Self::invalid(field, value, detail)
        }
    }

    /// `Unsupported value: VALUE: supported values: ...`.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[String]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            printed(value),
            quoted.join(", ")
        );
        Self::new(reason::NOT_SUPPORTED, field, message)
    }

    /// `Too long: may not be more than MAX bytes` (the real server says bytes but counts characters).
    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            reason::TOO_LONG,
            field,
            format!("Too long: may not be more than {max} {unit}"),
        )
    }

    /// `Too many: ACTUAL: must have at most MAX items`.
    pub fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            reason::TOO_MANY,
            field,
            format!("Too many: {actual}: must have at most {max} {unit}"),
        )
    }

    /// `Duplicate value: VALUE`.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            reason::DUPLICATE,
            field,
            format!("Duplicate value: {}", printed(value)),
        )
    }

    /// Whether the real server skips CEL rules because of it.
    pub(super) fn blocks_rules(&self) -> bool {
        [
            reason::NOT_SUPPORTED,
            reason::REQUIRED,
            reason::TOO_LONG,
            reason::TOO_MANY,
            reason::TYPE_INVALID,
        ]
        .contains(&self.reason.as_str())
    }

    /// The cause as an entry of `details.causes`.
    pub fn to_json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

impl fmt::Display for Cause {
    /// Formats the cause as in the message of a Status: `spec.num: Invalid value: 11: ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() {
        head.to_owned()
    } else {
        format!("{head}: {detail}")
    }
}

/// Formats a value for messages: strings quoted, floats like Go's `%v`, lists and maps as JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(|| number.to_string(), go_float)
        }
        Value::Array(_) | Value::Object(_) => go_json(value),
        scalar => scalar.to_string(),
    }
}

/// JSON as Go prints it, with `<`, `>` and `&` escaped.
pub(super) fn go_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// A float as Go's `%v` prints it: shortest digits, an exponent of at least two digits below 1e-4 and from 1e6 on.
pub(super) fn go_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let Ok(power) = exponent.parse::<i32>() else {
        return scientific;
    };
    if (-4..6).contains(&power) {
        return number.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}
