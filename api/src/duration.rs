//! Durations in Go's notation: `90s`, `5m`, `1h30m`.

use std::{borrow::Cow, fmt, str::FromStr, time};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The pattern that every duration in a CRD must match; the same as Flux's.
pub const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";

/// The longest text of a duration, in bytes.
pub const MAX_LENGTH: usize = 32;

/// The longest duration: ten years. A longer one is probably a typing error, and would overflow arithmetic elsewhere.
pub const MAX: Duration = Duration(10 * 365 * 24 * 3_600_000);

/// A length of time in whole milliseconds, written in Go's style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// Why a text is not a valid duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a sequence of numbers with units.
    #[error("{0:?} is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m")]
    Syntax(String),
    /// Longer than [`MAX`].
    #[error("{0:?} is longer than ten years")]
    TooLong(String),
}

impl Duration {
    /// The zero duration.
    pub const ZERO: Self = Self(0);

    /// A duration of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A duration of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// A duration of whole minutes.
    pub const fn from_mins(minutes: u64) -> Self {
        Self(minutes.saturating_mul(60_000))
    }

    /// A duration of whole hours.
    pub const fn from_hours(hours: u64) -> Self {
        Self(hours.saturating_mul(3_600_000))
    }

    /// The length in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The same length as a `std` duration.
    pub const fn to_std(self) -> time::Duration {
        time::Duration::from_millis(self.0)
    }
}

impl From<Duration> for time::Duration {
    fn from(duration: Duration) -> Self {
        duration.to_std()
    }
}

impl fmt::Display for Duration {
    /// The shortest notation, with the largest units first: `1h30m`, `90s` as `1m30s`, zero as `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let parts = [
            (self.0 / 3_600_000, "h"),
            (self.0 / 60_000 % 60, "m"),
            (self.0 / 1_000 % 60, "s"),
            (self.0 % 1_000, "ms"),
        ];
        parts
            .iter()
            .filter(|(amount, _)| *amount > 0)
            .try_for_each(|(amount, unit)| write!(f, "{amount}{unit}"))
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let syntax = || DurationError::Syntax(text.chars().take(MAX_LENGTH).collect());
        let too_long = || DurationError::TooLong(text.to_owned());
        if text.is_empty() || text.len() > MAX_LENGTH {
            return Err(syntax());
        }
        let mut rest = text;
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let (part, tail) = term(rest).ok_or_else(syntax)?;
            nanos = nanos.checked_add(part).ok_or_else(too_long)?;
            rest = tail;
        }
        let millis = u64::try_from(nanos / 1_000_000).map_err(|_| too_long())?;
        if millis > MAX.0 {
            Err(too_long())
        } else {
            Ok(Self(millis))
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX_LENGTH, "pattern": PATTERN })
    }
}

/// The first number with its unit in nanoseconds, and the remaining text.
fn term(text: &str) -> Option<(u128, &str)> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit())?;
    let (whole, rest) = text.split_at(digits_end);
    let whole: u128 = whole.parse().ok()?;
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let (digits, rest) = rest.split_at(end);
            if digits.is_empty() {
                return None;
            }
            (digits, rest)
        }
        None => ("", rest),
    };
    let (unit, rest) = unit(rest)?;
    // More than nine decimal places make less than a nanosecond for units up to an hour.
    let places = fraction.len().min(9);
    let fraction: u128 = if places == 0 {
        0
    } else {
        fraction[..places].parse().ok()?
    };
    let scale = 10_u128.pow(u32::try_from(places).ok()?);
    let nanos = whole.checked_mul(unit)?.checked_add(fraction * unit / scale)?;
    Some((nanos, rest))
}

fn unit(text: &str) -> Option<(u128, &str)> {
    [
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ]
    .into_iter()
    .find_map(|(name, nanos)| Some((nanos, text.strip_prefix(name)?)))
}
