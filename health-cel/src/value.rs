//! The values of expressions.

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc};

use cel::common::ast::LiteralValue;
use jiff::Timestamp;
use serde_json::Value as Json;

/// A CEL value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    List(Rc<Vec<Self>>),
    Map(Rc<Map>),
    /// In nanoseconds, as in Go.
    Duration(i64),
    Timestamp(Timestamp),
    Optional(Option<Rc<Self>>),
    Type(&'static str),
}

pub(crate) type Map = BTreeMap<Key, Value>;

/// A key of a map. Equal numbers are the same key whatever their type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    /// A number that does not fit `Int`.
    Uint(u64),
    Text(Rc<str>),
}

/// The types that an expression can name.
pub(crate) const TYPES: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

impl Value {
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self::Text(text.as_ref().into())
    }

    pub(crate) fn list(list: Vec<Self>) -> Self {
        Self::List(Rc::new(list))
    }

    pub(crate) fn some(self) -> Self {
        Self::Optional(Some(Rc::new(self)))
    }

    /// The name of the value's type.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
        }
    }

    /// The value as a map key, if it can be one.
    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::Bool(value) => Some(Key::Bool(*value)),
            Self::Text(text) => Some(Key::Text(text.clone())),
            Self::Uint(value) => Some(i64::try_from(*value).map_or(Key::Uint(*value), Key::Int)),
            Self::Int(_) | Self::Double(_) => self.integral().map(Key::Int),
            _ => None,
        }
    }

    /// The value as an index, if it is a whole number.
    pub(crate) fn integral(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Uint(value) => i64::try_from(*value).ok(),
            Self::Double(value) => as_integer(*value),
            _ => None,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Optional(None) => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Duration(span) => *span == 0,
            Self::Optional(Some(_)) | Self::Timestamp(_) | Self::Type(_) => false,
        }
    }
}

/// A double as an integer, if it is one.
#[allow(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "compared with the source value"
)]
pub(crate) fn as_integer(value: f64) -> Option<i64> {
    let within = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    (within && value.trunc() == value).then_some(value as i64)
}

impl From<&Key> for Value {
    fn from(key: &Key) -> Self {
        match key {
            Key::Bool(value) => Self::Bool(*value),
            Key::Int(value) => Self::Int(*value),
            Key::Uint(value) => Self::Uint(*value),
            Key::Text(text) => Self::Text(text.clone()),
        }
    }
}

impl From<&Json> for Value {
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => number
                .as_i64()
                .map_or_else(|| Self::Double(number.as_f64().unwrap_or(f64::NAN)), Self::Int),
            Json::String(text) => Self::text(text),
            Json::Array(list) => Self::list(list.iter().map(Self::from).collect()),
            Json::Object(fields) => {
                let fields = fields.iter();
                Self::Map(Rc::new(
                    fields
                        .map(|(name, value)| (Key::Text(name.as_str().into()), Self::from(value)))
                        .collect(),
                ))
            }
        }
    }
}

/// The top-level fields of an object.
pub(crate) fn variables(object: &Json) -> BTreeMap<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .map(|(name, value)| (name.clone(), Value::from(value)))
        .collect()
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// They are ordered like this.
    Is(Ordering),
    /// One of them is NaN, which has no order.
    NotANumber,
}

impl From<Option<Ordering>> for Order {
    fn from(order: Option<Ordering>) -> Self {
        order.map_or(Self::NotANumber, Self::Is)
    }
}

/// Compares numbers of any types; `None` if one is not a number.
#[allow(clippy::cast_precision_loss, reason = "as cel-go compares them")]
fn numbers(a: &Value, b: &Value) -> Option<Order> {
    use Value::{Double, Int, Uint};
    let order = match (a, b) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Uint(a), Uint(b)) => Some(a.cmp(b)),
        (Int(a), Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Uint(a), Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Double(a), Int(b)) => a.partial_cmp(&(*b as f64)),
        (Int(a), Double(b)) => (*a as f64).partial_cmp(b),
        (Double(a), Uint(b)) => a.partial_cmp(&(*b as f64)),
        (Uint(a), Double(b)) => (*a as f64).partial_cmp(b),
        _ => return None,
    };
    Some(order.into())
}

/// Whether two values are equal. Values of different types are not, except numbers.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    if let Some(order) = numbers(a, b) {
        return order == Order::Is(Ordering::Equal);
    }
    match (a, b) {
        (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal(a, b),
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => false,
    }
}

/// Compares two values; `None` if their types have no order.
pub(crate) fn compare(a: &Value, b: &Value) -> Option<Order> {
    if let Some(order) = numbers(a, b) {
        return Some(order);
    }
    Some(Order::Is(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        _ => return None,
    }))
}

/// The value of a literal.
pub(crate) fn constant(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Null => Value::Null,
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Value::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Value::Double(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::String(value) => Value::text(value.inner()),
        LiteralValue::UInt(value) => Value::Uint(*value.inner()),
    }
}
