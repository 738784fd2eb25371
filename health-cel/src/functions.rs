//! The functions of CEL, of cel-go's `strings`, `sets` and `encoders` extensions, and of optionals.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use regex::{Regex, RegexBuilder};

use crate::{
    budget::Budget,
    fault::{Evaluated, Fault, no, no_overload, optional, overflow},
    format, time,
    value::Value,
};

/// Accepts input with and without padding, like cel-go.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Size limit of a compiled regular expression, in bytes.
const PATTERN: usize = 1024 * 1024;

/// Namespaces of functions, as in `sets.contains`.
pub(crate) const NAMESPACES: [&str; 4] = ["base64", "optional", "sets", "strings"];

/// Type conversions.
pub(crate) const CONVERSIONS: [&str; 8] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "string",
    "timestamp",
    "uint",
];

const FUNCTIONS: [&str; 24] = [
    "base64.decode",
    "base64.encode",
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "has",
    "int",
    "matches",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "optional.unwrap",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "size",
    "string",
    "strings.quote",
    "timestamp",
    "type",
    "uint",
    "@not_strictly_false",
];

const METHODS: [&str; 36] = [
    "charAt",
    "contains",
    "endsWith",
    "first",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "hasValue",
    "indexOf",
    "join",
    "last",
    "lastIndexOf",
    "lowerAscii",
    "matches",
    "optFlatMap",
    "optMap",
    "or",
    "orValue",
    "replace",
    "reverse",
    "size",
    "split",
    "startsWith",
    "substring",
    "trim",
    "unwrapOpt",
    "upperAscii",
    "value",
];

/// Whether a function with this name exists. Operators are functions whose names have no letters.
pub(crate) fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
        || name == "@in"
        || !name.contains(|character: char| character.is_ascii_alphabetic())
}

/// Whether a method with this name exists.
pub(crate) fn is_method(name: &str) -> bool {
    METHODS.contains(&name)
}

pub(crate) fn function(budget: &mut Budget<'_>, name: &str, args: &[Value]) -> Evaluated {
    match (name, args) {
        ("size", [value]) => size(value),
        ("matches", [Value::Text(text), pattern]) => matches(text, pattern),
        ("type", [value]) => Ok(Value::Type(value.kind())),
        ("dyn", [value]) => Ok(value.clone()),
        (_, [value]) if CONVERSIONS.contains(&name) => convert(name, value),
        ("base64.encode", [Value::Bytes(bytes)]) => Ok(Value::text(BASE64_STANDARD.encode(bytes))),
        ("base64.decode", [Value::Text(text)]) => BASE64.decode(text.as_bytes()).map_or_else(
            |_| no("base64.decode: invalid base64"),
            |bytes| Ok(Value::Bytes(bytes.into())),
        ),
        ("strings.quote", [Value::Text(text)]) => Ok(Value::text(quote(text))),
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Ok(Value::Optional(None)),
        ("optional.of" | "optional.ofNonZeroValue", [value]) => Ok(value.clone().some()),
        ("optional.unwrap", [Value::List(list)]) => unwrap(name, list),
        ("sets.contains", [Value::List(_), Value::List(b)]) => Ok(Value::Bool(within(budget, b, &args[0])?)),
        ("sets.equivalent", [Value::List(a), Value::List(b)]) => Ok(Value::Bool(
            within(budget, b, &args[0])? && within(budget, a, &args[1])?,
        )),
        ("sets.intersects", [Value::List(_), Value::List(b)]) => {
            for value in b.iter() {
                if let Value::Bool(true) = budget.contains(value, &args[0])? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        _ => no_overload(name),
    }
}

/// Whether a list contains all values of another list.
fn within(budget: &mut Budget<'_>, values: &[Value], list: &Value) -> Evaluated<bool> {
    for value in values {
        if let Value::Bool(false) = budget.contains(value, list)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn method(budget: &mut Budget<'_>, name: &str, this: &Value, args: &[Value]) -> Evaluated {
    if name.starts_with("get") {
        return time::part(name, this, args);
    }
    match (this, name, args) {
        (_, "size", []) => size(this),
        (Value::Text(text), _, _) => of_text(budget, name, text, args),
        (Value::List(list), "join", []) => join(budget, list, ""),
        (Value::List(list), "join", [Value::Text(separator)]) => join(budget, list, separator),
        (Value::List(list), "first", []) => Ok(Value::Optional(list.first().cloned().map(Into::into))),
        (Value::List(list), "last", []) => Ok(Value::Optional(list.last().cloned().map(Into::into))),
        (Value::List(list), "unwrapOpt", []) => unwrap(name, list),
        (Value::Optional(inner), "hasValue", []) => Ok(Value::Bool(inner.is_some())),
        (Value::Optional(inner), "value", []) => inner
            .as_deref()
            .cloned()
            .map_or_else(|| no("optional.none() has no value"), Ok),
        _ => no_overload(name),
    }
}

fn of_text(budget: &mut Budget<'_>, name: &str, text: &str, args: &[Value]) -> Evaluated {
    use Value::{Int, Text};
    let made = match (name, args) {
        ("contains", [Text(part)]) => return Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Text(part)]) => return Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Text(part)]) => return Ok(Value::Bool(text.ends_with(&**part))),
        ("matches", [pattern]) => return matches(text, pattern),
        ("indexOf", [Text(part)]) => return Ok(Int(index(text, part, 0)?)),
        ("indexOf", [Text(part), Int(from)]) => return Ok(Int(index(text, part, *from)?)),
        ("lastIndexOf", [Text(part)]) => return Ok(Int(last_index(text, part, None)?)),
        ("lastIndexOf", [Text(part), Int(from)]) => return Ok(Int(last_index(text, part, Some(*from))?)),
        ("split", [Text(separator)]) => return split(budget, text, separator, -1),
        ("split", [Text(separator), Int(limit)]) => return split(budget, text, separator, *limit),
        ("charAt", [Int(at)]) => {
            let end = if *at == count(text) {
                *at
            } else {
                at.saturating_add(1)
            };
            substring(text, *at, end)?
        }
        ("substring", [Int(start)]) => substring(text, *start, count(text))?,
        ("substring", [Int(start), Int(end)]) => substring(text, *start, *end)?,
        ("lowerAscii", []) => text.to_ascii_lowercase(),
        ("upperAscii", []) => text.to_ascii_uppercase(),
        ("trim", []) => text.trim().to_owned(),
        ("reverse", []) => text.chars().rev().collect(),
        ("replace", [Text(old), Text(new)]) => replace(budget, text, old, new, -1)?,
        ("replace", [Text(old), Text(new), Int(limit)]) => replace(budget, text, old, new, *limit)?,
        ("format", [Value::List(values)]) => format::format(text, values)?,
        _ => return no_overload(name),
    };
    budget.make(made.len())?;
    Ok(Value::text(made))
}

fn count(text: &str) -> i64 {
    length(text.chars().count())
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn size(value: &Value) -> Evaluated {
    Ok(Value::Int(match value {
        Value::Text(text) => count(text),
        Value::Bytes(bytes) => length(bytes.len()),
        Value::List(list) => length(list.len()),
        Value::Map(map) => length(map.len()),
        _ => return no_overload("size"),
    }))
}

fn matches(text: &str, with: &Value) -> Evaluated {
    Ok(Value::Bool(pattern(with)?.is_match(text)))
}

/// Compiles the pattern of `matches`.
pub(crate) fn pattern(value: &Value) -> Evaluated<Regex> {
    let Value::Text(pattern) = value else {
        return no_overload("matches");
    };
    let pattern = RegexBuilder::new(pattern).size_limit(PATTERN).build();
    pattern.or_else(|_| no("matches: the pattern is not a regular expression"))
}

fn out_of_range<T>() -> Evaluated<T> {
    no("index out of range")
}

fn substring(text: &str, start: i64, end: i64) -> Evaluated<String> {
    let all = count(text);
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return out_of_range();
    };
    if start > end || end > all {
        return out_of_range();
    }
    Ok(text.chars().skip(from).take(to - from).collect())
}

fn index(text: &str, part: &str, from: i64) -> Evaluated<i64> {
    if part.is_empty() {
        return Ok(from);
    }
    let Ok(from) = usize::try_from(from) else {
        return out_of_range();
    };
    let Some((start, _)) = text.char_indices().nth(from) else {
        return Ok(-1);
    };
    let found = text[start..].find(part);
    Ok(found.map_or(-1, |at| count(&text[..start + at])))
}

fn last_index(text: &str, part: &str, from: Option<i64>) -> Evaluated<i64> {
    if part.is_empty() {
        return Ok(from.unwrap_or_else(|| count(text)));
    }
    let all = count(text);
    let from = from.unwrap_or(all - 1);
    if from < 0 && all > 0 {
        return out_of_range();
    }
    if from >= all {
        return Ok(-1);
    }
    // A match starts at `from` at the latest, and may end after it.
    let end = usize::try_from(from.saturating_add(count(part))).unwrap_or(usize::MAX);
    let end = text.char_indices().nth(end).map_or(text.len(), |(at, _)| at);
    Ok(text[..end].rfind(part).map_or(-1, |at| count(&text[..at])))
}

fn split(budget: &mut Budget<'_>, text: &str, separator: &str, limit: i64) -> Evaluated {
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts: Vec<Value> = Vec::new();
    if separator.is_empty() {
        let mut rest = text;
        while let Some(character) = rest.chars().next().filter(|_| parts.len() + 1 < limit) {
            parts.push(Value::text(character.to_string()));
            rest = &rest[character.len_utf8()..];
        }
        if !rest.is_empty() {
            parts.push(Value::text(rest));
        }
    } else {
        parts.extend(text.splitn(limit, separator).map(Value::text));
    }
    budget.make(text.len() + parts.len())?;
    Ok(Value::list(parts))
}

fn replace(budget: &mut Budget<'_>, text: &str, old: &str, new: &str, limit: i64) -> Evaluated<String> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let times = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    budget.make(
        text.len()
            .saturating_add(new.len().saturating_mul(times.min(limit))),
    )?;
    Ok(text.replacen(old, new, limit))
}

fn join(budget: &mut Budget<'_>, list: &[Value], separator: &str) -> Evaluated {
    let mut out = String::new();
    for (index, value) in list.iter().enumerate() {
        let Value::Text(text) = value else {
            return no("join requires a list of strings");
        };
        let between = if index == 0 { "" } else { separator };
        budget.make(between.len() + text.len())?;
        out.push_str(between);
        out.push_str(text);
    }
    Ok(Value::text(out))
}

fn unwrap(name: &str, list: &[Value]) -> Evaluated {
    let mut values = Vec::with_capacity(list.len());
    for value in list {
        values.extend(optional(value, name)?.cloned());
    }
    Ok(Value::list(values))
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "within the bounds checked before"
)]
pub(crate) fn convert(to: &str, value: &Value) -> Evaluated {
    use Value::{Bool, Bytes, Double, Duration, Int, Text, Timestamp, Uint};
    /// 2^63.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let unreadable = || Err(Fault::NoValue(format!("{to}: the string cannot be converted")));
    match (to, value) {
        ("bool", Bool(_))
        | ("int", Int(_))
        | ("uint", Uint(_))
        | ("double", Double(_))
        | ("string", Text(_))
        | ("bytes", Bytes(_))
        | ("duration", Duration(_))
        | ("timestamp", Timestamp(_)) => Ok(value.clone()),
        ("bool", Text(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Bool(false)),
            _ => unreadable(),
        },
        ("int", Uint(number)) => i64::try_from(*number).map_or_else(|_| overflow(), |number| Ok(Int(number))),
        ("int", Double(number)) if number.abs() < LIMIT => Ok(Int(*number as i64)),
        ("uint", Double(number)) if (0.0..2.0 * LIMIT).contains(number) => Ok(Uint(*number as u64)),
        ("int" | "uint", Double(_)) => overflow(),
        ("int", Text(text)) => text
            .parse()
            .map_or_else(|_| unreadable(), |number| Ok(Int(number))),
        ("int", Timestamp(time)) => Ok(Int(time.as_second())),
        ("uint", Int(number)) => {
            u64::try_from(*number).map_or_else(|_| overflow(), |number| Ok(Uint(number)))
        }
        ("uint", Text(text)) => text
            .parse()
            .map_or_else(|_| unreadable(), |number| Ok(Uint(number))),
        ("double", Int(number)) => Ok(Double(*number as f64)),
        ("double", Uint(number)) => Ok(Double(*number as f64)),
        ("double", Text(text)) => text
            .parse()
            .map_or_else(|_| unreadable(), |number| Ok(Double(number))),
        ("string", Bool(value)) => Ok(Value::text(value.to_string())),
        ("string", Int(number)) => Ok(Value::text(number.to_string())),
        ("string", Uint(number)) => Ok(Value::text(number.to_string())),
        ("string", Double(number)) => Ok(Value::text(format::shortest(*number))),
        ("string", Duration(span)) => Ok(Value::text(time::duration_text(*span))),
        ("string", Timestamp(time)) => Ok(Value::text(time.to_string())),
        ("string", Bytes(bytes)) => {
            str::from_utf8(bytes).map_or_else(|_| unreadable(), |text| Ok(Value::text(text)))
        }
        ("bytes", Text(text)) => Ok(Bytes(text.as_bytes().into())),
        ("duration", Text(text)) => {
            time::parse_duration(text).map_or_else(unreadable, |span| Ok(Duration(span)))
        }
        ("timestamp", Text(text)) => {
            time::parse_timestamp(text).map_or_else(unreadable, |time| Ok(Timestamp(time)))
        }
        ("timestamp", Int(seconds)) => {
            jiff::Timestamp::from_second(*seconds).map_or_else(|_| overflow(), |time| Ok(Timestamp(time)))
        }
        _ => no_overload(to),
    }
}
