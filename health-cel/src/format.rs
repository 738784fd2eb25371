//! The `format` function, and the string form of values.

use std::fmt::Write as _;

use crate::{
    budget::MAX_MADE,
    fault::{Evaluated, Fault, no},
    time,
    value::Value,
};

/// Larger than the digit count of any number.
const MAX_PRECISION: usize = 1_000;

/// A double as Go writes it.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        value.to_string()
    }
}

/// A double in Go's shortest form: very small and very large ones with an exponent.
pub(crate) fn shortest(value: f64) -> String {
    let text = format!("{value:e}");
    let exponent = text
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    match exponent {
        Some(exponent) if !(-4..6).contains(&exponent) => signed_exponent(&text),
        _ if value.is_infinite() => if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        _ => value.to_string(),
    }
}

/// `<string>.format(<list>)`
pub(crate) fn format(text: &str, values: &[Value]) -> Evaluated<String> {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut clause = rest.next();
        if clause == Some('%') {
            out.push('%');
            continue;
        }
        let mut precision = None;
        if clause == Some('.') {
            let digits: String = rest.clone().take_while(char::is_ascii_digit).collect();
            rest = rest.as_str()[digits.len()..].chars();
            precision = digits
                .parse::<usize>()
                .ok()
                .filter(|digits| *digits <= MAX_PRECISION);
            if precision.is_none() {
                return Err(Fault::TooLarge);
            }
            clause = rest.next();
        }
        let (Some(clause), Some(value)) = (clause, values.next()) else {
            return no("format has more clauses than values");
        };
        clause_of(&mut out, clause, precision, value)?;
        if out.len() > MAX_MADE {
            return Err(Fault::TooLarge);
        }
    }
    Ok(out)
}

fn clause_of(out: &mut String, clause: char, precision: Option<usize>, value: &Value) -> Evaluated<()> {
    let written = match (clause, value) {
        ('s', value) => return plain(out, value),
        ('d', Value::Int(_) | Value::Uint(_) | Value::Double(_)) => return plain(out, value),
        ('f' | 'e', Value::Double(number)) if !number.is_finite() => return plain(out, value),
        ('f', Value::Double(number)) => write!(out, "{number:.*}", precision.unwrap_or(6)),
        ('e', Value::Double(number)) => {
            out.push_str(&signed_exponent(&format!("{number:.*e}", precision.unwrap_or(6))));
            Ok(())
        }
        ('b', Value::Bool(value)) => write!(out, "{}", u8::from(*value)),
        ('b' | 'o' | 'x' | 'X', Value::Int(number)) => {
            if *number < 0 {
                out.push('-');
            }
            radix(out, clause, number.unsigned_abs())
        }
        ('b' | 'o' | 'x' | 'X', Value::Uint(number)) => radix(out, clause, *number),
        ('x' | 'X', Value::Text(text)) => hex(out, clause, text.as_bytes()),
        ('x' | 'X', Value::Bytes(bytes)) => hex(out, clause, bytes),
        _ => return no("format has a clause that is not defined for its value"),
    };
    written.or_else(|_| no("format"))
}

fn radix(out: &mut String, clause: char, number: u64) -> std::fmt::Result {
    match clause {
        'b' => write!(out, "{number:b}"),
        'o' => write!(out, "{number:o}"),
        'x' => write!(out, "{number:x}"),
        _ => write!(out, "{number:X}"),
    }
}

fn hex(out: &mut String, clause: char, bytes: &[u8]) -> std::fmt::Result {
    bytes.iter().try_for_each(|byte| {
        if clause == 'x' {
            write!(out, "{byte:02x}")
        } else {
            write!(out, "{byte:02X}")
        }
    })
}

/// Go writes a sign and at least two digits.
fn signed_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = exponent
        .strip_prefix('-')
        .map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn plain(out: &mut String, value: &Value) -> Evaluated<()> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Uint(number) => out.push_str(&number.to_string()),
        Value::Double(number) => out.push_str(&double(*number)),
        Value::Text(text) => out.push_str(text),
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::Duration(span) => out.push_str(&time::duration_text(*span)),
        Value::Timestamp(time) => out.push_str(&time.to_string()),
        Value::Type(name) => out.push_str(name),
        Value::List(list) => {
            out.push('[');
            for (index, value) in list.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                plain(out, value)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map.iter() {
                let (mut name, mut text) = (String::new(), String::new());
                plain(&mut name, &Value::from(key))?;
                plain(&mut text, value)?;
                entries.push((name, text));
            }
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let entries = entries.iter().map(|(name, text)| format!("{name}: {text}"));
            out.push('{');
            out.push_str(&entries.collect::<Vec<_>>().join(", "));
            out.push('}');
        }
        Value::Optional(_) => return no("format has no clause for an optional"),
    }
    Ok(())
}
