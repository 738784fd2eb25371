//! Controls: what a person says to muster by an annotation that git does not own (`fleet.muster.dev/paused` and its like).
//!
//! The value is either plain text, which is what the control is for (a digest, names of clusters by comma, or `true`), or a JSON object
//! that also says who, why, since when, and until when:
//!
//! ```text
//! kubectl annotate module/web --field-manager=muster-cli fleet.muster.dev/paused=true
//! kubectl annotate module/web --field-manager=muster-cli \
//!   fleet.muster.dev/paused='{"by": "ann", "reason": "release freeze", "until": "2026-12-28T08:00:00Z"}'
//! ```
//!
//! Each field of the object is optional. Text that begins with `{` and is no such object is an error, never a guess: whoever reads a
//! control that cannot be read does nothing until it is mended.

use std::{collections::BTreeSet, fmt::Write as _};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::conditions::bounded;

/// Bytes of `by` and `reason` that are told; annotations may be 256 KiB long.
const MAX_TOLD: usize = 256;
/// The longest that a control can be said to hold from now on: a year, and the day that some years have more. What shall hold
/// longer says no end.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(366 * 24);
/// Bytes of what is wrong with an object: it repeats parts of the annotation.
const MAX_PROBLEM: usize = 200;

/// What an annotation of a person says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// What it is for: a digest, names of clusters by comma, `true`. Empty if the object does not say.
    #[serde(rename = "for", default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// An annotation that begins as a JSON object, and cannot be read as a control.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// It is no JSON.
    #[error(
        "it begins with {{ and is no JSON ({problem}): write plain text, or an object with for, by, reason, at, until"
    )]
    NotJson {
        /// What the parser says, and where.
        problem: String,
    },
    /// It is JSON, but not a control.
    #[error(
        "{problem}: the fields are for, by, reason (texts), at and until (times such as 2026-01-02T03:04:05Z)"
    )]
    NotControl {
        /// Which field is wrong, and how.
        problem: String,
    },
    /// It ends so late that a mistake is more likely.
    #[error("until is {until}, more than a year from now: say an earlier time, or leave it out")]
    TooLong {
        /// When it would end.
        until: Timestamp,
    },
}

impl Control {
    /// Reads the value of an annotation.
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

    /// The value for an annotation: plain text if nothing but what it is for is said, and that does not look like an object.
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
        // Text and times always become JSON; an empty object would say nothing wrong.
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned())
    }

    /// Whether it holds at `now`: it has not ended, and does not say `false`.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.what != "false" && self.until.is_none_or(|until| now < until)
    }

    /// The control, unless it would hold for longer than anybody means.
    pub fn meant(self, now: Timestamp) -> Result<Self, ControlError> {
        let latest = now.checked_add(LONGEST).unwrap_or(Timestamp::MAX);
        match self.until {
            Some(until) if until > latest => Err(ControlError::TooLong { until }),
            _ => Ok(self),
        }
    }

    /// Its time was over before `now`.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// The names that it is for, by comma.
    pub fn names(&self) -> BTreeSet<&str> {
        let names = self.what.split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Who, why, since when and until when, for people: ` by ann (release freeze) since … until …`; empty if nothing of it is said.
    pub fn told(&self) -> String {
        let mut told = String::new();
        // Writing to a String cannot fail.
        if let Some(by) = &self.by {
            let _ = write!(told, " by {}", line(by));
        }
        if let Some(reason) = &self.reason {
            let _ = write!(told, " ({})", line(reason));
        }
        if let Some(at) = self.at {
            let _ = write!(told, " since {at}");
        }
        if let Some(until) = self.until {
            let _ = write!(told, " until {until}");
        }
        told
    }
}

/// One line of bounded length.
fn line(text: &str) -> String {
    let clean: String = bounded(text, MAX_TOLD)
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    clean.trim().to_owned()
}
