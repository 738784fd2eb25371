//! Converts a tree to JSON: keys, merge keys, numbers.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::scalar::{self, Resolved};
use super::{Document, Kind, Node, YamlError, YamlProblem};

impl Document {
    /// The document as JSON: scalars resolved as in kubectl, merge keys applied. Duplicate keys are an error.
    pub fn value(&self) -> Result<Value, YamlError> {
        value_of(&self.file, &self.root)
    }

    /// Whether the document is empty.
    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.root.kind, Kind::Scalar(scalar) if scalar.plain && scalar.tag.is_none() && is_null(&scalar.text))
    }
}

/// The JSON of a node.
pub(super) fn value_of(file: &Arc<str>, node: &Node) -> Result<Value, YamlError> {
    match &node.kind {
        Kind::Scalar(scalar) => {
            let resolved = scalar::resolve(scalar).and_then(value);
            resolved.map_err(|problem| YamlError::new(file, node.at, problem))
        }
        Kind::Sequence(items) => items
            .iter()
            .map(|item| value_of(file, item))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Kind::Mapping(pairs) => mapping(file, pairs).map(Value::Object),
    }
}

/// Whether a plain scalar is null.
pub(super) fn is_null(text: &str) -> bool {
    scalar::resolve_plain(text) == Resolved::Null
}

fn mapping(file: &Arc<str>, pairs: &[(Arc<Node>, Arc<Node>)]) -> Result<Map<String, Value>, YamlError> {
    let mut own = Map::new();
    let mut merge: Option<&Node> = None;
    for (key, node) in pairs {
        let is_duplicate = match key_of(file, key)? {
            Key::Merge => merge.replace(node).is_some(),
            Key::Name(name) => own.insert(name, value_of(file, node)?).is_some(),
        };
        if is_duplicate {
            return Err(duplicate(file, pairs, key));
        }
    }
    if let Some(merge) = merge {
        for (name, merged) in merged(file, merge)? {
            // Keys of the mapping itself take precedence.
            own.entry(name).or_insert(merged);
        }
    }
    Ok(own)
}

/// The error for a key that occurred before in the same mapping.
fn duplicate(file: &Arc<str>, pairs: &[(Arc<Node>, Arc<Node>)], second: &Node) -> YamlError {
    let named = |node: &Node| key_of(file, node).ok();
    let name = named(second);
    let first = pairs.iter().find(|(key, _)| named(key) == name);
    let key = match (&second.kind, name) {
        (Kind::Scalar(scalar), Some(Key::Name(_))) if scalar.expanded => "${…}".to_owned(),
        (_, Some(Key::Name(name))) => format!("{name:?}"),
        _ => "<<".to_owned(),
    };
    let first = first.map_or(second.at, |(key, _)| key.at);
    YamlError::new(file, second.at, YamlProblem::DuplicateKey { key, first })
}

/// The mappings that a `<<` merges, highest precedence first.
fn merged(file: &Arc<str>, node: &Node) -> Result<Map<String, Value>, YamlError> {
    let error = |at| Err(YamlError::new(file, at, YamlProblem::Merge));
    match &node.kind {
        Kind::Mapping(pairs) => mapping(file, pairs),
        Kind::Scalar(_) => error(node.at),
        Kind::Sequence(items) => {
            let mut all = Map::new();
            for item in items {
                let Kind::Mapping(pairs) = &item.kind else {
                    return error(item.at);
                };
                for (name, value) in mapping(file, pairs)? {
                    all.entry(name).or_insert(value);
                }
            }
            Ok(all)
        }
    }
}

#[derive(PartialEq)]
enum Key {
    Name(String),
    Merge,
}

/// The JSON form of a key.
fn key_of(file: &Arc<str>, node: &Node) -> Result<Key, YamlError> {
    let refuse = |problem| YamlError::new(file, node.at, problem);
    let Kind::Scalar(scalar) = &node.kind else {
        return Err(refuse(YamlProblem::Key("a list or a mapping")));
    };
    Ok(Key::Name(match scalar::resolve(scalar).map_err(refuse)? {
        Resolved::Merge => return Ok(Key::Merge),
        Resolved::Null => return Err(refuse(YamlProblem::Key("null"))),
        Resolved::UInt(_) => return Err(refuse(YamlProblem::Key("an integer beyond 64 bits"))),
        Resolved::Bool(bool) => bool.to_string(),
        Resolved::Int(int) => int.to_string(),
        Resolved::Float(float) => float_key(float),
        Resolved::Text(text) => text,
    }))
}

fn value(resolved: Resolved) -> Result<Value, YamlProblem> {
    Ok(match resolved {
        Resolved::Null => Value::Null,
        Resolved::Bool(bool) => Value::Bool(bool),
        Resolved::Int(int) => Value::Number(int.into()),
        #[expect(clippy::cast_precision_loss, reason = "the nearest float, as kubectl has it")]
        Resolved::UInt(int) => Value::Number(number(int as f64).ok_or(YamlProblem::NotFinite)?),
        Resolved::Float(float) => Value::Number(number(float).ok_or(YamlProblem::NotFinite)?),
        Resolved::Text(text) => Value::String(text),
        Resolved::Merge => Value::String("<<".to_owned()),
    })
}

/// An integer if the shortest decimal form of the float is one of 64 bits: kubectl writes it that way and reads it
/// again.
fn number(float: f64) -> Option<Number> {
    match format!("{float}").parse::<i64>() {
        Ok(int) => Some(int.into()),
        Err(_) => Number::from_f64(float),
    }
}

/// A float as a key: Go's shortest form for 32 bits.
fn float_key(float: f64) -> String {
    if float.is_nan() {
        return ".nan".to_owned();
    }
    #[expect(clippy::cast_possible_truncation, reason = "kubectl cuts keys to 32 bits")]
    let short = float as f32;
    if short.is_infinite() {
        return if short > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{short:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{short}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
