//! Parses command-line arguments.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::{
    Error,
    catalogue::{Effect, FLAGS, Flag, Kind, find_flag},
};
use crate::duration;

/// A parsed flag value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Value of a [`Kind::Bool`] flag.
    Bool(bool),
    /// Value of a [`Kind::Int`] flag.
    Int(i64),
    /// Value of a [`Kind::Float`] flag.
    Float(f64),
    /// Value of a [`Kind::Duration`] or [`Kind::Days`] flag.
    Duration(SignedDuration),
    /// Value of a [`Kind::Text`] flag.
    Text(String),
    /// Value of a [`Kind::List`] flag.
    List(Vec<String>),
}

/// The flags that were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    values: BTreeMap<&'static str, Value>,
}

/// Parses arguments without the program name. Arguments after `--`, or after the first argument that is not a flag, are
/// ignored.
pub fn parse_flags<S: AsRef<str>>(arguments: &[S]) -> Result<Given, Error> {
    let mut given = Given::default();
    let mut rest = arguments.iter().map(AsRef::as_ref);
    while let Some(argument) = rest.next() {
        let Some(text) = argument.strip_prefix('-').filter(|text| !text.is_empty()) else {
            break;
        };
        if text == "-" {
            break;
        }
        let text = text.strip_prefix('-').unwrap_or(text);
        if text.starts_with(['-', '=']) {
            return Err(Error::Syntax(argument.to_owned()));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let Some(flag) = find_flag(name) else {
            return Err(match name {
                "h" | "help" => Error::Help,
                _ => Error::Unknown(name.to_owned()),
            });
        };
        let value = match (value, flag.kind) {
            (Some(value), _) => value,
            (None, Kind::Bool) => "true",
            (None, _) => rest.next().ok_or_else(|| Error::NoValue(name.to_owned()))?,
        };
        let value = read(flag, value)?;
        match (given.values.get_mut(flag.name), value) {
            (Some(Value::List(before)), Value::List(more)) => before.extend(more),
            (_, value) => {
                given.values.insert(flag.name, value);
            }
        }
    }
    Ok(given)
}

impl Given {
    /// The effective value: the given one, otherwise the default.
    pub fn value(&self, flag: &Flag) -> Result<Value, Error> {
        match self.values.get(flag.name) {
            Some(value) => Ok(value.clone()),
            None => read(flag, flag.effective.unwrap_or(flag.default)),
        }
    }

    /// The given flags that have no effect, each with the reason, for the log.
    pub fn without_effect(&self) -> Vec<String> {
        FLAGS
            .iter()
            .filter(|flag| self.values.contains_key(flag.name))
            .filter_map(|flag| match flag.effect {
                Effect::None(why) => Some(format!("-{} has no effect: {why}", flag.name)),
                Effect::Works => None,
            })
            .collect()
    }
}

fn read(flag: &Flag, text: &str) -> Result<Value, Error> {
    let refuse = |why: &str| Error::Value {
        name: flag.name,
        value: text.to_owned(),
        why: why.to_owned(),
    };
    Ok(match flag.kind {
        Kind::Bool => match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Value::Bool(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Value::Bool(false),
            _ => {
                return Err(Error::Bool {
                    name: flag.name,
                    value: text.to_owned(),
                });
            }
        },
        Kind::Int => Value::Int(parse_integer(text).map_err(refuse)?),
        Kind::Float => Value::Float(text.parse().map_err(|_| refuse("parse error"))?),
        Kind::Duration => Value::Duration(duration::go(text).map_err(|_| refuse("parse error"))?),
        Kind::Days => {
            let days = duration::prometheus(text);
            Value::Duration(days.ok_or_else(|| refuse(&not_days(text)))?)
        }
        Kind::Text => Value::Text(text.to_owned()),
        Kind::List if text.is_empty() => Value::List(Vec::new()),
        Kind::List => Value::List(text.split(',').map(|part| part.trim().to_owned()).collect()),
    })
}

/// An integer in Go's notation: a base prefix is allowed.
fn parse_integer(text: &str) -> Result<i64, &'static str> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_lowercase();
    let (radix, digits) = match (lower.get(..2), lower.get(2..)) {
        (Some("0x"), Some(rest)) => (16, rest),
        (Some("0b"), Some(rest)) => (2, rest),
        (Some("0o"), Some(rest)) => (8, rest),
        _ => (10, lower.as_str()),
    };
    if digits.starts_with(['+', '-']) {
        return Err("parse error");
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|error| match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
        _ => "parse error",
    })
}

fn not_days(text: &str) -> String {
    match text {
        "" => "empty duration string".to_owned(),
        _ => format!("not a valid duration string: {text:?}"),
    }
}
