//! Resolves the type of scalars, by the rules of go-yaml 2, which kubectl uses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;

use super::{Scalar, Tag, YamlProblem};

/// The resolved value of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer that does not fit an `i64`.
    UInt(u64),
    Float(f64),
    Text(String),
    /// `<<`: a merge key; as a value it is a string.
    Merge,
}

/// Resolves a scalar by its text, its style and its tag.
pub(super) fn resolve(scalar: &Scalar) -> Result<Resolved, YamlProblem> {
    let text = || Resolved::Text(scalar.text.clone());
    let mismatch = |tag| Err(YamlProblem::TagMismatch(tag));
    let Some(tag) = scalar.tag else {
        return Ok(if scalar.plain {
            resolve_plain(&scalar.text)
        } else {
            text()
        });
    };
    match (tag, resolve_plain(&scalar.text)) {
        (Tag::Merge, Resolved::Merge) => Ok(Resolved::Merge),
        (Tag::Str | Tag::Merge, _) => Ok(text()),
        (Tag::Int, int @ (Resolved::Int(_) | Resolved::UInt(_))) => Ok(int),
        (Tag::Float, float @ Resolved::Float(_)) => Ok(float),
        #[expect(
            clippy::cast_precision_loss,
            reason = "the nearest float is what is asked for"
        )]
        (Tag::Float, Resolved::Int(int)) => Ok(Resolved::Float(int as f64)),
        (Tag::Bool, bool @ Resolved::Bool(_)) => Ok(bool),
        (Tag::Null, Resolved::Null) => Ok(Resolved::Null),
        (Tag::Timestamp, _) if is_timestamp(&scalar.text) => Ok(text()),
        (Tag::Binary, _) => match binary(&scalar.text) {
            Some(decoded) => Ok(Resolved::Text(decoded)),
            None => mismatch("!!binary (base64 of UTF-8)"),
        },
        (tag, _) => mismatch(name(tag)),
    }
}

/// Resolves a plain scalar.
pub(super) fn resolve_plain(text: &str) -> Resolved {
    let Some(first) = text.chars().next() else {
        return Resolved::Null;
    };
    if let Some(known) = word(text) {
        return known;
    }
    let number = match first {
        '.' => fraction(text),
        '0'..='9' | '+' | '-' => number(text),
        _ => None,
    };
    number.unwrap_or_else(|| Resolved::Text(text.to_owned()))
}

/// Plain words with a special meaning, such as `true` and `null`.
fn word(text: &str) -> Option<Resolved> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Resolved::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Resolved::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Resolved::Null,
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Resolved::Float(f64::NEG_INFINITY),
        "<<" => Resolved::Merge,
        _ => return None,
    })
}

/// Integers with or without a prefix, underscores anywhere; then decimal floats. (A timestamp stays a string, not a
/// number.)
fn number(text: &str) -> Option<Resolved> {
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| if is_decimal(&plain) { finite(&plain) } else { None })
}

/// A text that starts with a dot: underscores only between digits.
fn fraction(text: &str) -> Option<Resolved> {
    let between_digits = |index: usize| {
        let digit = |c: Option<&u8>| c.is_some_and(u8::is_ascii_digit);
        index > 0 && digit(text.as_bytes().get(index - 1)) && digit(text.as_bytes().get(index + 1))
    };
    let separated = text.match_indices('_').all(|(index, _)| between_digits(index));
    let plain = text.replace('_', "");
    if separated && is_decimal(&plain) {
        finite(&plain)
    } else {
        None
    }
}

/// Go's `ParseInt` and `ParseUint` with base 0, underscores removed.
fn integer(text: &str) -> Option<Resolved> {
    // go-yaml parses what follows `0b` separately, and accepts a sign there.
    if let Some(signed) = text
        .strip_prefix("0b")
        .filter(|rest| rest.starts_with(['+', '-']))
    {
        return i64::from_str_radix(signed, 2).ok().map(Resolved::Int);
    }
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefix = |letters: [char; 2]| {
        unsigned
            .strip_prefix('0')
            .and_then(|rest| rest.strip_prefix(letters))
    };
    let (digits, base) = if let Some(digits) = prefix(['x', 'X']) {
        (digits, 16)
    } else if let Some(digits) = prefix(['b', 'B']) {
        (digits, 2)
    } else if let Some(digits) = prefix(['o', 'O']) {
        (digits, 8)
    } else if unsigned.len() > 1 && unsigned.starts_with('0') {
        (&unsigned[1..], 8)
    } else {
        (unsigned, 10)
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    if let Ok(int) = i64::from_str_radix(&format!("{}{digits}", if negative { "-" } else { "" }), base) {
        return Some(Resolved::Int(int));
    }
    // A sign rules out `ParseUint`.
    if text.starts_with(['+', '-']) {
        None
    } else {
        u64::from_str_radix(digits, base).ok().map(Resolved::UInt)
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)),
        ),
        None => (unsigned, None),
    };
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    mantissa_fits && exponent.is_none_or(digits)
}

/// The nearest float; a value that is too large stays a string.
fn finite(text: &str) -> Option<Resolved> {
    text.parse::<f64>()
        .ok()
        .filter(|float| float.is_finite())
        .map(Resolved::Float)
}

/// Year, month, day, optionally a time; loosely, as only `!!timestamp` needs it.
fn is_timestamp(text: &str) -> bool {
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = date.split('-').collect();
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    year.len() == 4
        && digits(year, 4)
        && digits(month, 2)
        && digits(day, 2)
        && matches!((year.parse(), month.parse(), day.parse()), (Ok(year), Ok(month), Ok(day)) if Date::new(year, month, day).is_ok())
}

fn binary(text: &str) -> Option<String> {
    let packed: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    // Bytes that are not UTF-8 cannot be in JSON: the caller reports both alike.
    STANDARD
        .decode(packed)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
}

fn name(tag: Tag) -> &'static str {
    match tag {
        Tag::Str => "!!str",
        Tag::Int => "!!int",
        Tag::Float => "!!float",
        Tag::Bool => "!!bool",
        Tag::Null => "!!null",
        Tag::Timestamp => "!!timestamp",
        Tag::Binary => "!!binary",
        Tag::Merge => "!!merge",
    }
}
