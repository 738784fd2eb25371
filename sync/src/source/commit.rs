//! Commit ids.

use std::fmt;
use std::str::FromStr;

/// A full git commit id: 40 or 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(String);

/// A string that is not a full commit id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a commit: 40 (or 64) hex digits are needed, an abbreviation is ambiguous")]
pub struct InvalidCommitId(String);

impl CommitId {
    /// The first 40 digits of a longer hex string that we generated.
    pub(super) fn from_digest(hex: &str) -> Self {
        Self(hex[..40].to_owned())
    }

    /// The hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CommitId {
    type Err = InvalidCommitId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.bytes().all(|b| b.is_ascii_hexdigit());
        if hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(InvalidCommitId(text.chars().take(80).collect()))
        }
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Formats bytes as lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
