//! Controls: instructions that a user gives muster through an annotation that is not managed in git
//! (`fleet.muster.dev/paused` and similar).
//!
//! The value is either plain text, the subject of the control (a digest, cluster names separated by commas, or `true`),
//! or a JSON object that also records who set it, why, when, and when it expires:
//!
//! ```text
//! kubectl annotate module/web --field-manager=muster-cli fleet.muster.dev/paused=true
//! kubectl annotate module/web --field-manager=muster-cli \
//!   fleet.muster.dev/paused='{"by": "ann", "reason": "release freeze", "until": "2026-12-28T08:00:00Z"}'
//! ```
//!
//! Each field of the object is optional. Text that begins with `{` and is not such an object is an error, never a
//! guess: readers of a control that cannot be parsed do nothing until it is fixed.

use std::{collections::BTreeSet, fmt::Write as _};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::conditions::bounded;

/// Maximum number of bytes of `by` and `reason` that are shown; annotations may be 256 KiB long.
const MAX_SHOWN: usize = 256;
/// The maximum remaining time of a control: 366 days. A control that should apply for longer must not set `until`.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(366 * 24);
/// Maximum number of bytes of a parse error that are shown: the error quotes parts of the annotation.
const MAX_PROBLEM: usize = 200;

/// The parsed value of a control annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// The subject: a digest, cluster names separated by commas, or `true`. Empty if the object does not set it.
    #[serde(rename = "for", default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Who set the control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why the control was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the control was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// When the control expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// An annotation that begins like a JSON object but cannot be parsed as a control.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The text is not valid JSON.
    #[error(
        "it begins with {{ but is not valid JSON ({problem}): write plain text, or an object with for, by, reason, at, until"
    )]
    NotJson {
        /// The parser's message, with the position.
        problem: String,
    },
    /// The text is valid JSON, but not a control.
    #[error(
        "{problem}: the fields are for, by, reason (texts), at and until (times such as 2026-01-02T03:04:05Z)"
    )]
    NotControl {
        /// Which field is wrong, and how.
        problem: String,
    },
    /// The control expires so late that a mistake is likely.
    #[error("until is {until}, more than a year from now: set an earlier time, or omit it")]
    TooLong {
        /// The rejected expiry time.
        until: Timestamp,
    },
}

impl Control {
    /// Parses the value of an annotation.
    pub fn parse(text: &str) -> Result<Self, ControlError> {
        let text = text.trim();
        if !text.starts_with('{') {
            return Ok(Self {
                what: text.to_owned(),
                ..Self::default()
            });
        }
        serde_json::from_str(text).map_err(|error| {
            let problem = bounded(&error.to_string(), MAX_PROBLEM).into_owned();
            if error.is_data() {
                ControlError::NotControl { problem }
            } else {
                ControlError::NotJson { problem }
            }
        })
    }

    /// The value for an annotation: plain text if only the subject is set and it does not look like an object;
    /// otherwise JSON.
    pub fn to_text(&self) -> String {
        let Self {
            what,
            by,
            reason,
            at,
            until,
        } = self;
        let plain = by.is_none() && reason.is_none() && at.is_none() && until.is_none();
        if plain && !what.trim_start().starts_with('{') {
            return what.clone();
        }
        // Serializing strings and times cannot fail; an empty object would be a harmless fallback.
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned())
    }

    /// Whether the control applies at `now`: it has not expired, and its subject is not `false`.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.what != "false" && self.until.is_none_or(|until| now < until)
    }

    /// The control, or an error if it expires more than [`LONGEST`] after `now`.
    pub fn meant(self, now: Timestamp) -> Result<Self, ControlError> {
        let latest = now.checked_add(LONGEST).unwrap_or(Timestamp::MAX);
        match self.until {
            Some(until) if until > latest => Err(ControlError::TooLong { until }),
            _ => Ok(self),
        }
    }

    /// Whether the control has expired at `now`.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// The names in the subject, which are separated by commas.
    pub fn names(&self) -> BTreeSet<&str> {
        let names = self.what.split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Who set the control, why, when, and until when it applies, as human-readable text: ` by ann (release freeze)
    /// since … until …`; empty if nothing of this is set.
    pub fn provenance(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if let Some(by) = &self.by {
            let _ = write!(text, " by {}", line(by));
        }
        if let Some(reason) = &self.reason {
            let _ = write!(text, " ({})", line(reason));
        }
        if let Some(at) = self.at {
            let _ = write!(text, " since {at}");
        }
        if let Some(until) = self.until {
            let _ = write!(text, " until {until}");
        }
        text
    }
}

/// The text as a single line of limited length.
fn line(text: &str) -> String {
    let clean: String = bounded(text, MAX_SHOWN)
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    clean.trim().to_owned()
}
