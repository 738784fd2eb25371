//! Durations and timestamps as cel-go and Go read and write them.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::{
    fault::{Evaluated, no, no_overload, overflow},
    value::Value,
};

const SECOND: i64 = 1_000_000_000;

/// The units of a duration, in nanoseconds; the longer names first.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
];

/// A duration as Go writes it: `1h30m`, `-1.5s`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.split_at_checked(1) {
        Some(("-", rest)) => (-1, rest),
        Some(("+", rest)) => (1, rest),
        _ => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let end = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(rest.len());
        let (whole, after) = rest.split_at(end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => {
                let end = after
                    .find(|character: char| !character.is_ascii_digit())
                    .unwrap_or(after.len());
                after.split_at(end)
            }
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, size) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        rest = &after[unit.len()..];
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(*size)?)?;
        let mut part = *size;
        for digit in fraction.bytes() {
            part /= 10;
            total = total.checked_add(i64::from(digit - b'0') * part)?;
        }
    }
    Some(sign * total)
}

pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    // RFC 3339 requires a T and a zone; jiff is less strict.
    let shape = text.len() >= 20 && text.as_bytes()[10] == b'T' && !text.contains('[');
    shape.then(|| text.parse().ok()).flatten()
}

pub(crate) fn add(a: &Value, b: &Value) -> Option<Evaluated> {
    match (a, b) {
        (Value::Duration(a), Value::Duration(b)) => Some(
            a.checked_add(*b)
                .map_or_else(overflow, |span| Ok(Value::Duration(span))),
        ),
        (Value::Timestamp(time), Value::Duration(span)) | (Value::Duration(span), Value::Timestamp(time)) => {
            Some(moved(*time, Some(*span)))
        }
        _ => None,
    }
}

pub(crate) fn subtract(a: &Value, b: &Value) -> Option<Evaluated> {
    match (a, b) {
        (Value::Duration(a), Value::Duration(b)) => Some(
            a.checked_sub(*b)
                .map_or_else(overflow, |span| Ok(Value::Duration(span))),
        ),
        (Value::Timestamp(time), Value::Duration(span)) => Some(moved(*time, span.checked_neg())),
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            let span = i64::try_from(a.duration_since(*b).as_nanos());
            Some(span.map_or_else(|_| overflow(), |span| Ok(Value::Duration(span))))
        }
        _ => None,
    }
}

fn moved(time: Timestamp, span: Option<i64>) -> Evaluated {
    let span = span.map(jiff::SignedDuration::from_nanos);
    let time = span.and_then(|span| time.checked_add(span).ok());
    time.map_or_else(overflow, |time| Ok(Value::Timestamp(time)))
}

/// A duration as cel-go writes it: seconds.
pub(crate) fn duration_text(span: i64) -> String {
    let sign = if span < 0 { "-" } else { "" };
    let (seconds, nanos) = (
        span.unsigned_abs() / SECOND.unsigned_abs(),
        span.unsigned_abs() % SECOND.unsigned_abs(),
    );
    if nanos == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{nanos:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// A part of a time or of a duration: `getHours`.
pub(crate) fn part(name: &str, of: &Value, zone: &[Value]) -> Evaluated {
    match zone {
        [] => {}
        [Value::Text(zone)] if &**zone == "UTC" => {}
        [Value::Text(_)] => return no("only the time zone UTC is supported"),
        _ => return no_overload(name),
    }
    let part = match of {
        Value::Duration(span) if zone.is_empty() => match name {
            "getHours" => span / (3_600 * SECOND),
            "getMinutes" => span / (60 * SECOND),
            "getSeconds" => span / SECOND,
            "getMilliseconds" => span / 1_000_000,
            _ => return no_overload(name),
        },
        Value::Timestamp(time) => of_time(name, time.to_zoned(TimeZone::UTC).datetime()),
        _ => return no_overload(name),
    };
    Ok(Value::Int(part))
}

fn of_time(name: &str, time: DateTime) -> i64 {
    match name {
        "getFullYear" => time.year().into(),
        "getMonth" => i64::from(time.month()) - 1,
        "getDate" => time.day().into(),
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDayOfWeek" => time.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getHours" => time.hour().into(),
        "getMinutes" => time.minute().into(),
        "getSeconds" => time.second().into(),
        _ => time.millisecond().into(),
    }
}
