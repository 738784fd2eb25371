//! Why a window is invalid.

use std::fmt;

use jiff::civil::Date;
use muster_api::{rolloutwindow::MAX_ENTRIES, selector::SelectorError};

/// A problem with a window, and the field that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowError {
    /// Path of the field, such as `spec.deny[0].timeZone`; if a Cluster lacks its time zone, the path of its
    /// annotation.
    pub field: String,
    /// The problem with the field.
    pub problem: Problem,
}

/// A problem with a field of a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The object does not match the schema of the CustomResourceDefinition.
    #[error("{0}")]
    Malformed(String),
    /// A selector with an invalid operator, key or value.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Neither `allow` nor `deny` is set.
    #[error("set either allow or deny")]
    NoRule,
    /// Both `allow` and `deny` are set.
    #[error("set either allow or deny, not both")]
    TwoRules,
    /// `allow` or `deny` without entries.
    #[error("list at least one entry: {{}} is always")]
    NoEntries,
    /// More entries than the CustomResourceDefinition allows.
    #[error("{0} entries are too many: list at most {MAX_ENTRIES}")]
    TooManyEntries(usize),
    /// `days` is empty.
    #[error("list at least one day, or omit days for every day")]
    NoDays,
    /// `from` without `to`, or the reverse.
    #[error("set both from and to, or neither for the whole day")]
    HalfOpen,
    /// Not a time of day.
    #[error("{0:?} is not a time of day: write 00:00 to 23:59, or 24:00 as the end")]
    Time(String),
    /// `from` equals `to`.
    #[error("from and to are both {0}: omit both for the whole day")]
    SameTime(String),
    /// Not a date range.
    #[error(
        "{0:?} is not a range of dates: write the first and the last date, such as 2026-12-20/2027-01-03"
    )]
    Dates(String),
    /// A date range that ends before it starts.
    #[error("the dates end on {last}, before they start on {first}")]
    DatesBackwards {
        /// The first date of the range.
        first: Date,
        /// The last date of the range.
        last: Date,
    },
    /// Days, times or dates without a time zone.
    #[error("set timeZone or timeZoneFrom: days, from, to and dates are local")]
    NoTimeZone,
    /// Both `timeZone` and `timeZoneFrom` are set.
    #[error("set either timeZone or timeZoneFrom, not both")]
    TwoTimeZones,
    /// A name that is not in the time zone database.
    #[error("time zone {0:?} does not exist: use a name such as Europe/Berlin or UTC")]
    UnknownTimeZone(String),
    /// The Cluster lacks the annotation that `timeZoneFrom` names.
    #[error("the Cluster has no annotation {0}, which sets its time zone")]
    NoAnnotation(String),
    /// A bypass without an end.
    #[error("the bypass of {0} has no end: set until")]
    EndlessBypass(String),
    /// A bypass without a reason.
    #[error("the bypass of {0} has no reason: set reason")]
    UnexplainedBypass(String),
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for WindowError {}
