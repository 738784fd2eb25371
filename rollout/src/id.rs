//! Identities: units and their incarnations, revisions, digests, tokens.
//!
//! Hashes are known to the engine by their first 16 bytes: enough to tell two apart, small enough to remember.
//! The full ones stand in the rows, which are the caller's.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a unit (of a cluster: its name). Units are ordered by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitId(Arc<str>);

impl UnitId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Text and name are ordered alike: what is kept by name is found by text.
impl Borrow<str> for UnitId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for UnitId {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for UnitId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which life of a unit: another one of the same name is another unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Incarnation(pub(crate) u64);

impl Incarnation {
    /// The incarnation of a unique id, whatever its form (of a cluster: the uid of its object).
    pub fn of(uid: &str) -> Self {
        // 48 bits: enough for the lives of one name, and few digits in the memory.
        Self(fnv64(uid.as_bytes()) >> 16)
    }
}

/// A stage, by its name: one that is moved among the others stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StageId(u64);

impl StageId {
    /// The stage of this name.
    pub fn of(name: &str) -> Self {
        // 48 bits, as for incarnations.
        Self(fnv64(name.as_bytes()) >> 16)
    }
}

/// The hash of what is rolled out: targeted, judged, remembered as good or bad.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision([u8; 16]);

/// The hash of what one unit gets (a revision with this unit's values): assigned, echoed, confirmed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 16]);

macro_rules! short_hash {
    ($name:ident) => {
        impl $name {
            /// From the first 16 bytes of a hash.
            pub const fn new(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// From at least 32 hexadecimal digits, with or without the prefix `sha256:`. None for anything else.
            pub fn parse(text: &str) -> Option<Self> {
                parse_hash(text).map(Self)
            }
        }

        /// The first 16 bytes, in lower-case hexadecimal.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0[..4]
                    .iter()
                    .try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not 32 hexadecimal digits"))
            }
        }
    };
}

short_hash!(Revision);
short_hash!(Digest);

/// The number of a decision. Rows and reports carry it; on a row it never falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Token(pub u64);

impl Token {
    /// The next one; the greatest stays what it is.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// FNV-1a: stable over builds and machines, which the standard library's hasher does not promise.
pub(crate) fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn parse_hash(text: &str) -> Option<[u8; 16]> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
    if hex.len() < 32 || !hex.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(hex.chunks(2)) {
        let digit = |at: usize| pair.get(at).and_then(|c| char::from(*c).to_digit(16));
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(bytes)
}
