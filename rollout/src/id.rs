//! Identities: units and their incarnations, revisions, digests, tokens.
//!
//! The engine stores the first 16 bytes of a hash: enough to distinguish hashes, and short enough to store. The
//! caller's assignments have the full ones.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a unit: for a cluster, its name. Units are ordered by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitId(Arc<str>);

impl UnitId {
    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name is ordered like its text, so maps keyed by name can be searched by text.
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

/// Distinguishes successive units with the same name: an object that is re-created is another unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Incarnation(pub(crate) u64);

impl Incarnation {
    /// The incarnation of a unique id in any format: for a cluster, the uid of its object.
    pub fn of(uid: &str) -> Self {
        // 48 bits: enough to distinguish the incarnations of one name, and few digits in the memory.
        Self(fnv64(uid.as_bytes()) >> 16)
    }
}

/// A stage, identified by its name: it stays the same when stages are reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StageId(u64);

impl StageId {
    /// The id of the stage with this name.
    pub fn of(name: &str) -> Self {
        // 48 bits, as for incarnations.
        Self(fnv64(name.as_bytes()) >> 16)
    }
}

/// The hash of a module's content, which is targeted, judged, and remembered as good or bad.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision([u8; 16]);

/// The hash of what one unit gets (a revision with this unit's values), which is assigned, reported and confirmed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 16]);

macro_rules! short_hash {
    ($name:ident) => {
        impl $name {
            /// From the first 16 bytes of a hash.
            pub const fn new(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// From at least 32 hexadecimal digits, with or without the prefix `sha256:`; `None` for anything else.
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

/// The number of a decision. Assignments and reports contain it; the token of an assignment never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Token(pub u64);

impl Token {
    /// The next token; the maximum stays as it is.
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

/// FNV-1a: stable across builds and machines, unlike the standard library's hasher.
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
