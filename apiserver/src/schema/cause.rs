//! One thing that is wrong with an object, as `details.causes` of a Status carries it.

use std::fmt;

use serde_json::{Value, json};

/// The reasons that `metav1.CauseType` knows.
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
    /// The value, or its key, stands in the list more than once.
    pub const DUPLICATE: &str = "FieldValueDuplicate";
    /// The value may not be there, or may not change.
    pub const FORBIDDEN: &str = "FieldValueForbidden";
    /// The value refers to something that is not there.
    pub const NOT_FOUND: &str = "FieldValueNotFound";
    /// Another manager of the field applied another value.
    pub const MANAGER_CONFLICT: &str = "FieldManagerConflict";
}

/// One cause: what is wrong (`reason`, `message`) and where (`field`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The machine-readable kind of the problem, one of [`reason`].
    pub reason: String,
    /// The text without the field: `Invalid value: "ABC": should match '^[a-z]+$'`.
    pub message: String,
    /// The path of the field: `spec.list[0].name`; empty for the object itself.
    pub field: String,
}

impl Cause {
    /// A cause with the given parts.
    pub fn new(reason: &str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into(), field: field.into() }
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
        let value = printed(value);
        let head = if value.is_empty() { "Invalid value".to_owned() } else { format!("Invalid value: {value}") };
        Self::new(reason::INVALID, field, with_detail(&head, detail))
    }

    /// `Duplicate value: VALUE`.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(reason::DUPLICATE, field, format!("Duplicate value: {}", compact(value)))
    }

    /// The cause as an entry of `details.causes`.
    pub fn to_json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

impl fmt::Display for Cause {
    /// As it stands in the message of a Status: `spec.num: Invalid value: 11: ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() { "<nil>" } else { &self.field };
        write!(f, "{field}: {}", self.message)
    }
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}

/// Values in messages: strings quoted, numbers plain, lists and maps by their JSON.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => compact(other),
    }
}

fn compact(value: &Value) -> String {
    value.to_string()
}
