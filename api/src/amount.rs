//! A number of clusters, or a share of them: `3` or `"25%"`.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The largest count that an [`Amount`] can hold.
pub const MAX_COUNT: u32 = 100_000;

/// A count of clusters, or a percentage of the selected, eligible ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Amount {
    /// An absolute count.
    Count(u32),
    /// A percentage, 0 to 100; written `"25%"`.
    Percent(u8),
}

/// Why a text is not a valid amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Neither a count nor a percentage.
    #[error("{0:?} is neither a count such as 3 nor a percentage from \"0%\" to \"100%\"")]
    Syntax(String),
    /// Larger than [`MAX_COUNT`].
    #[error("{0} is larger than {MAX_COUNT}")]
    TooLarge(u64),
}

impl Amount {
    /// The absolute number out of `total`: a percentage is rounded down, but is at least 1 when above 0.
    pub fn of(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(0) => 0,
            Self::Percent(percent) => {
                let share = u64::from(total) * u64::from(percent) / 100;
                // At most 100 % of a u32 fits in a u32.
                u32::try_from(share).unwrap_or(total).max(1)
            }
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let syntax = || AmountError::Syntax(text.chars().take(16).collect());
        let digits = text.strip_suffix('%').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(syntax());
        }
        let number: u64 = digits.parse().map_err(|_| syntax())?;
        if digits.len() == text.len() {
            return Self::try_from(number);
        }
        u8::try_from(number)
            .ok()
            .filter(|percent| *percent <= 100)
            .map(Self::Percent)
            .ok_or_else(syntax)
    }
}

impl TryFrom<u64> for Amount {
    type Error = AmountError;

    fn try_from(number: u64) -> Result<Self, AmountError> {
        u32::try_from(number)
            .ok()
            .filter(|count| *count <= MAX_COUNT)
            .map(Self::Count)
            .ok_or(AmountError::TooLarge(number))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u32(*count),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(u64),
            Text(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(number) => Self::try_from(number),
            Raw::Text(text) => text.parse(),
        }
        .map_err(de::Error::custom)
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "maximum": MAX_COUNT,
            "maxLength": 6,
            "pattern": "^([0-9]{1,6}|([0-9]{1,2}|100)%)$",
        })
    }
}
