//! Why an expression has no value.

use crate::value::Value;

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An error as CEL defines it; `false && …` and `true || …` absorb it.
    NoValue(String),
    /// It creates too many or too large values.
    TooLarge,
    /// It was stopped.
    Stopped,
}

pub(crate) type Evaluated<T = Value> = Result<T, Fault>;

pub(crate) fn no<T>(message: impl Into<String>) -> Evaluated<T> {
    Err(Fault::NoValue(message.into()))
}

/// The function is not defined for these types.
pub(crate) fn no_overload<T>(name: &str) -> Evaluated<T> {
    no(format!("{name} is not defined for values of these types"))
}

pub(crate) fn overflow<T>() -> Evaluated<T> {
    no("the number is out of range")
}

/// The value inside an optional.
pub(crate) fn optional<'v>(value: &'v Value, name: &str) -> Evaluated<Option<&'v Value>> {
    match value {
        Value::Optional(inner) => Ok(inner.as_deref()),
        _ => no_overload(name),
    }
}
