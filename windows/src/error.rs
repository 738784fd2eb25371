//! Why a window cannot be read.

use std::fmt;

use jiff::civil::Date;
use muster_api::{rolloutwindow::MAX_ENTRIES, selector::SelectorError};

/// What is wrong with a window, and in which field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowError {
    /// The field's path, such as `spec.deny[0].timeZone`; for a cluster without its time zone, the path of its annotation.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field of a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It does not have the form that the definition asks for.
    #[error("{0}")]
    Malformed(String),
    /// A selector with an operator, a key or a value that cannot be.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Neither `allow` nor `deny`.
    #[error("set either allow or deny")]
    NoRule,
    /// Both `allow` and `deny`.
    #[error("set either allow or deny, not both")]
    TwoRules,
    /// `allow` or `deny` without entries.
    #[error("list at least one entry: {{}} is always")]
    NoEntries,
    /// More entries than an API server with our definition accepts.
    #[error("{0} entries are too many: list at most {MAX_ENTRIES}")]
    TooManyEntries(usize),
    /// `days` without a day.
    #[error("list at least one day, or omit days for every day")]
    NoDays,
    /// `from` without `to`, or the reverse.
    #[error("set both from and to, or neither for the whole day")]
    HalfOpen,
    /// A text that is no time of day.
    #[error("{0:?} is not a time of day: write 00:00 to 23:59, or 24:00 as the end")]
    Time(String),
    /// `from` equals `to`.
    #[error("from and to are both {0}: omit both for the whole day")]
    SameTime(String),
    /// A text that is no range of dates.
    #[error(
        "{0:?} is not a range of dates: write the first and the last date, such as 2026-12-20/2027-01-03"
    )]
    Dates(String),
    /// A range of dates that ends before it starts.
    #[error("the dates end on {last}, before they start on {first}")]
    DatesBackwards {
        /// The date on the left.
        first: Date,
        /// The date on the right.
        last: Date,
    },
    /// Days, times or dates without a time zone.
    #[error("set timeZone or timeZoneFrom: days, from, to and dates are local")]
    NoTimeZone,
    /// Both `timeZone` and `timeZoneFrom`.
    #[error("set either timeZone or timeZoneFrom, not both")]
    TwoTimeZones,
    /// A name that the time zone database does not have.
    #[error("time zone {0:?} does not exist: use a name such as Europe/Berlin or UTC")]
    UnknownTimeZone(String),
    /// The Cluster lacks the annotation that `timeZoneFrom` names.
    #[error("the Cluster has no annotation {0}, which has its time zone")]
    NoAnnotation(String),
    /// A bypass that would never end.
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
