//! Durations in the notations of Go (`5m0s`) and Prometheus (`1d`).

use jiff::SignedDuration;

/// Nanoseconds of each unit of Go's durations.
const GO: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Units of Prometheus' durations in their required order, with their milliseconds.
const PROMETHEUS: &[(&str, u64)] = &[
    ("y", 31_536_000_000),
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Why a text is not a valid duration, in the wording of Go's `time.ParseDuration`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A number is missing or out of range.
    #[error("time: invalid duration {0:?}")]
    Text(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that Go does not know, such as days.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unknown unit.
        unit: String,
        /// The complete text.
        text: String,
    },
}

/// Parses a Go duration: an optional sign, then numbers with fractions and units; `0` needs no unit.
pub fn go(text: &str) -> Result<SignedDuration, Invalid> {
    let invalid = || Invalid::Text(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds: i128 = 0;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c| !c.is_ascii_digit() && c != '.');
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        if unit.is_empty() {
            return Err(Invalid::MissingUnit(text.to_owned()));
        }
        let Some((_, scale)) = GO.iter().find(|(name, _)| *name == unit) else {
            return Err(Invalid::UnknownUnit {
                unit: unit.to_owned(),
                text: text.to_owned(),
            });
        };
        let part = scaled(whole, fraction, *scale).ok_or_else(invalid)?;
        nanoseconds = nanoseconds.checked_add(part).ok_or_else(invalid)?;
        rest = after;
    }
    let signed = if negative { -nanoseconds } else { nanoseconds };
    i64::try_from(signed)
        .map(SignedDuration::from_nanos)
        .map_err(|_| invalid())
}

/// `whole.fraction` times `scale`; insignificant digits of the fraction are dropped.
fn scaled(whole: &str, fraction: &str, scale: i128) -> Option<i128> {
    let number = |digits: &str| -> Option<i128> {
        if digits.is_empty() {
            Some(0)
        } else {
            digits.parse().ok()
        }
    };
    let fraction: String = fraction.chars().take(18).collect();
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let small = number(&fraction)?.checked_mul(scale)? / divisor;
    number(whole)?.checked_mul(scale)?.checked_add(small)
}

/// Prints as Go does: `5m0s`, `1h0m0s`, `100ms`, `0s`.
pub fn go_text(duration: SignedDuration) -> String {
    let nanoseconds = duration.as_nanos().unsigned_abs();
    let sign = if duration.is_negative() { "-" } else { "" };
    let fraction = |value: u128, scale: u128| -> String {
        let (whole, rest) = (value / scale, value % scale);
        if rest == 0 {
            return whole.to_string();
        }
        let width = scale.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        format!("{whole}.{}", digits.trim_end_matches('0'))
    };
    match nanoseconds {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanoseconds}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(nanoseconds, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(nanoseconds, 1_000_000)),
        _ => {
            let minutes = nanoseconds / 60_000_000_000;
            let seconds = fraction(nanoseconds % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Parses a Prometheus duration: whole numbers with units from years to milliseconds, each at most once and in that
/// order; or `0`.
pub fn prometheus(text: &str) -> Option<SignedDuration> {
    if text == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut rest = text;
    let mut units = PROMETHEUS.iter();
    let mut milliseconds: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| c.is_ascii_alphabetic());
        let (_, scale) = units.find(|(name, _)| *name == unit)?;
        let part = number.parse::<u64>().ok()?.checked_mul(*scale)?;
        milliseconds = milliseconds.checked_add(part)?;
        rest = after;
    }
    let milliseconds = i64::try_from(milliseconds).ok()?;
    (!text.is_empty()).then(|| SignedDuration::from_millis(milliseconds))
}

/// Prints as Prometheus does: `1y`, `30d`, `1h30m`, `0s`.
pub fn prometheus_text(duration: SignedDuration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or_default();
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, scale) in PROMETHEUS {
        // Years and weeks are printed only if there is no remainder.
        let exact = matches!(*unit, "y" | "w" | "d");
        if rest >= *scale && (!exact || rest % scale == 0) {
            let count = rest / scale;
            text.extend([count.to_string().as_str(), unit]);
            rest %= scale;
        }
    }
    text
}

fn split(text: &str, of: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !of(c)).unwrap_or(text.len());
    text.split_at(end)
}
