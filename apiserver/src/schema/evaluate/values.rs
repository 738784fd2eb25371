//! JSON values as CEL values, typed by the schema: date-times, durations and bytes by their format, property names
//! escaped as in Kubernetes.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base64::Engine;
use kube_cel::KubeCelExt;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

use super::super::node::Node;
use super::super::rules::escaped;
use super::super::types::Type;

thread_local! {
    /// All functions of Kubernetes; contexts of rules are inner scopes.
    pub(super) static FUNCTIONS: LazyCell<Context<'static>> = LazyCell::new(functions);
    static TIMESTAMP: LazyCell<Option<Expression>> = LazyCell::new(|| conversion("timestamp(text)"));
    static DURATION: LazyCell<Option<Expression>> = LazyCell::new(|| conversion("duration(text)"));
}

/// The types that expressions may compare `type(x)` with.
const TYPES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "uint",
];

fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("type", type_of);
    for name in TYPES {
        context.add_variable_from_value(name, format!("type {name}"));
    }
    context
}

// The signature required by a context.
#[allow(clippy::needless_pass_by_value)]
fn type_of(value: Cel) -> String {
    let name = match value {
        Cel::Bool(_) => "bool",
        Cel::Bytes(_) => "bytes",
        Cel::Float(_) => "double",
        Cel::Duration(_) => "duration",
        Cel::Int(_) => "int",
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Null => "null_type",
        Cel::String(_) => "string",
        Cel::Timestamp(_) => "timestamp",
        Cel::UInt(_) => "uint",
        Cel::Function(..) | Cel::Opaque(_) => "opaque",
    };
    format!("type {name}")
}

/// Like [`typed_value`], but only with these members, with escaped names, so that a rule about one field of a large
/// object is cheap.
pub(super) fn typed_members(
    value: &Value,
    node: &Node,
    resource: bool,
    members: Option<&BTreeSet<String>>,
) -> Cel {
    let (Value::Object(all), Some(members)) = (value, members) else {
        return typed_value(value, node, resource);
    };
    let is_entry = node.additional.schema().is_some();
    let named = all.iter().filter(|(name, _)| {
        if is_entry {
            members.contains(*name)
        } else {
            members.contains(&escaped(name))
        }
    });
    let subset = named.map(|(name, value)| (name.clone(), value.clone())).collect();
    typed_value(&Value::Object(subset), node, resource)
}

/// The CEL value of `value` with the schema `node`; with `resource` it has type and metadata regardless of the schema.
pub(super) fn typed_value(value: &Value, node: &Node, resource: bool) -> Cel {
    match value {
        Value::Number(number) if node.ty == Some(Type::Number) => {
            number.as_f64().map_or_else(|| untyped(value), Cel::Float)
        }
        Value::Number(number) if number.is_f64() && node.ty == Some(Type::Integer) => integer_value(value),
        Value::String(text) if !node.int_or_string => formatted(text, node.format.as_deref()),
        Value::Array(items) => match &node.items {
            Some(schema) => Cel::List(Arc::new(
                items
                    .iter()
                    .map(|item| typed_value(item, schema, schema.embedded))
                    .collect(),
            )),
            None => untyped(value),
        },
        Value::Object(members) => {
            let resource = resource || node.embedded;
            let member = |(name, value): (&String, &Value)| {
                let key = if node.additional.schema().is_some() {
                    name.clone()
                } else {
                    escaped(name)
                };
                let value = match (node.member(name), resource && name == "metadata") {
                    (_, true) => names_only(value),
                    (Some(schema), false) => typed_value(value, schema, schema.embedded),
                    (None, false) => untyped(value),
                };
                (Key::String(Arc::new(key)), value)
            };
            Cel::Map(Map {
                map: Arc::new(members.iter().map(member).collect()),
            })
        }
        _ => untyped(value),
    }
}

/// The CEL value of JSON without a schema.
pub(super) fn untyped(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Cel::Int(number),
            (None, Some(number)) => Cel::UInt(number),
            (None, None) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(untyped).collect())),
        Value::Object(members) => {
            let members: HashMap<Key, Cel> = members
                .iter()
                .map(|(name, value)| (Key::String(Arc::new(escaped(name))), untyped(value)))
                .collect();
            Cel::Map(Map {
                map: Arc::new(members),
            })
        }
    }
}

/// In metadata, rules can access only `name` and `generateName`.
fn names_only(metadata: &Value) -> Cel {
    let accessible = ["name", "generateName"].into_iter();
    let members: HashMap<Key, Cel> = accessible
        .filter_map(|name| {
            Some((
                Key::String(Arc::new(name.to_owned())),
                untyped(metadata.get(name)?),
            ))
        })
        .collect();
    Cel::Map(Map {
        map: Arc::new(members),
    })
}

/// An integer, also if written in JSON with a zero fraction.
fn integer_value(value: &Value) -> Cel {
    let digits = value.as_f64().map(|number| format!("{number:.0}"));
    digits
        .and_then(|digits| digits.parse().ok())
        .map_or_else(|| untyped(value), Cel::Int)
}

fn formatted(text: &str, format: Option<&str>) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    let converted = match format {
        Some("date-time" | "datetime") => convert(&TIMESTAMP, text.to_owned()),
        Some("date") => convert(&TIMESTAMP, format!("{text}T00:00:00Z")),
        Some("duration") => convert(&DURATION, text.to_owned()),
        Some("byte") => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            // Invalid base64 has already been rejected by the format.
            decoded.ok().map(|bytes| Cel::Bytes(Arc::new(bytes)))
        }
        _ => None,
    };
    converted.unwrap_or_else(plain)
}

type Conversion = std::thread::LocalKey<LazyCell<Option<Expression>>>;

fn convert(conversion: &'static Conversion, text: String) -> Option<Cel> {
    FUNCTIONS.with(|functions| {
        let mut scope = functions.new_inner_scope();
        scope.add_variable_from_value("text", text);
        // Invalid text has already been rejected by the format; it remains a string.
        conversion.with(|expression| scope.resolve(expression.as_ref()?).ok())
    })
}

fn conversion(source: &str) -> Option<Expression> {
    // A constant expression; tests of formats cover it.
    Parser::default().parse(source).ok()
}
