//! Recorded decisions: each call of [`plan`] is a line of JSON, so that it can be replayed and compared.
//!
//! ```text
//!   Case ─► Recorder ─► line   what differs from the line before; the first of a file is whole
//!   line ─► Reader ───► Case ─► again: the decision as it comes out now
//! ```
//!
//! The caller reads and writes files. Lines contain no secrets: units have digests instead of values. They do contain
//! the reports of units, including messages.
//!
//! Invariant: a line is read back as it was recorded, except for the order of the units and what [`plan`] itself
//! ignores.

mod line;

use line::Line;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Decision, Memory, Millis, Spec, Unit, plan};

/// The format of the lines. Lines of another format are not read.
pub const SCHEMA: &str = "decisions/v1";

/// One call of [`plan`], and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The time of the call.
    pub now: Millis,
    /// The spec that was passed.
    pub spec: Spec,
    /// The memory that was passed.
    pub memory: Memory,
    /// The units that were passed.
    pub units: Vec<Unit>,
    /// The result.
    pub decision: Decision,
}

/// The module that the decisions are about, and the version that made them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The module: kind, namespace and name, for display.
    pub module: String,
    /// The version of muster.
    pub version: String,
}

/// Converts cases to lines, one after the other.
#[derive(Debug)]
pub struct Recorder {
    origin: Origin,
    last: Option<Case>,
}

/// Converts lines to cases, one after the other.
#[derive(Debug, Default)]
pub struct Reader {
    origin: Option<Origin>,
    last: Option<Case>,
}

/// Why a line cannot be read.
#[derive(Debug, Error)]
pub enum LineError {
    /// It is not valid JSON, or has unexpected content.
    #[error("not a line of recorded decisions: {what} at column {column}")]
    Unreadable {
        /// The error message.
        what: String,
        /// The column, from 1.
        column: usize,
    },
    /// It has another format.
    #[error(
        "its schema is {found}, and this version of muster reads {SCHEMA}: replay it with the version that recorded it"
    )]
    Schema {
        /// The format of the line.
        found: String,
    },
    /// It depends on a previous line that is missing.
    #[error(
        "it contains only changes, and no complete line is before it: the beginning of the file is missing"
    )]
    NothingBefore,
}

impl From<serde_json::Error> for LineError {
    fn from(error: serde_json::Error) -> Self {
        let column = error.column();
        let what = error.to_string();
        // A recorded line is a single line; the reader of the file knows its number.
        let what = what.split(" at line ").next().unwrap_or(&what).to_owned();
        Self::Unreadable { what, column }
    }
}

impl Case {
    /// The decision for the same input now.
    pub fn again(&self) -> Decision {
        plan(&self.spec, &self.memory, &self.units, self.now)
    }

    /// Whether only the time differs.
    fn repeats(&self, other: &Self) -> bool {
        let Self {
            now: _,
            spec,
            memory,
            units,
            decision,
        } = self;
        (spec, memory, units, decision) == (&other.spec, &other.memory, &other.units, &other.decision)
    }

    /// The units as [`plan`] uses them: ordered by name, without duplicates.
    fn in_order(mut self) -> Self {
        self.units.sort_unstable();
        self.units.dedup_by(|later, first| later.id == first.id);
        self
    }
}

impl Recorder {
    /// The first line is complete.
    pub fn new(origin: Origin) -> Self {
        Self { origin, last: None }
    }

    /// Makes the next line complete: for a new file, or if the end of the file is unknown.
    pub fn begin(&mut self) {
        self.last = None;
    }

    /// Whether nothing was recorded since the start.
    pub fn is_at_the_beginning(&self) -> bool {
        self.last.is_none()
    }

    /// The line of a case, with its newline. None: nothing but the time differs from the previous one.
    pub fn line(&mut self, case: Case) -> Result<Option<String>, serde_json::Error> {
        let case = case.in_order();
        if self.last.as_ref().is_some_and(|last| case.repeats(last)) {
            return Ok(None);
        }
        let line = match &self.last {
            Some(last) => Line::after(last, &case),
            None => Line::complete(&self.origin, &case),
        };
        let text = serde_json::to_string(&line)? + "\n";
        self.last = Some(case);
        Ok(Some(text))
    }
}

impl Reader {
    /// The case of the next line.
    pub fn read(&mut self, line: &[u8]) -> Result<&Case, LineError> {
        /// The format field, which lines of any format have.
        #[derive(Deserialize)]
        struct Head {
            schema: Option<String>,
        }
        let head: Head = serde_json::from_slice(line)?;
        if let Some(found) = head.schema.filter(|schema| schema != SCHEMA) {
            return Err(LineError::Schema { found });
        }
        let line: Line = serde_json::from_slice(line)?;
        let (origin, case) = line.read(self.last.take())?;
        self.origin = origin.or_else(|| self.origin.take());
        Ok(self.last.insert(case))
    }

    /// The origin of the decisions in the last line.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }
}
