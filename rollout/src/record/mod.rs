//! Decisions on record: each call of [`plan`] is a line of JSON, so that it can be made again and compared.
//!
//! ```text
//!   Case ─► Recorder ─► line   what differs from the line before; the first of a file is whole
//!   line ─► Reader ───► Case ─► again: the decision as it comes out now
//! ```
//!
//! Who writes and reads files is the caller's matter. Nothing secret is in a line: units carry digests instead of values. What units report,
//! messages included, is.
//!
//! Invariant: what is read of a line is what was recorded, but for the order of the units and what [`plan`] leaves out of them itself.

mod line;

use line::Line;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Decision, Memory, Millis, Spec, Unit, plan};

/// The form of the lines. Of another one nothing is read.
pub const SCHEMA: &str = "decisions/v1";

/// One call of [`plan`], and what came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// When.
    pub now: Millis,
    /// What people wished.
    pub spec: Spec,
    /// What was remembered.
    pub memory: Memory,
    /// What was seen.
    pub units: Vec<Unit>,
    /// What was decided.
    pub decision: Decision,
}

/// Whose decisions they are, and who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The module: kind, namespace and name, for people.
    pub module: String,
    /// The version of muster.
    pub version: String,
}

/// Makes lines of cases, one after the other.
#[derive(Debug)]
pub struct Recorder {
    origin: Origin,
    last: Option<Case>,
}

/// Makes cases of lines, one after the other.
#[derive(Debug, Default)]
pub struct Reader {
    origin: Option<Origin>,
    last: Option<Case>,
}

/// Why a line cannot be read.
#[derive(Debug, Error)]
pub enum LineError {
    /// It is no JSON, or not what a line holds.
    #[error("no line of a record of decisions: {what} at column {column}")]
    Unreadable {
        /// What is wrong.
        what: String,
        /// Where, from 1.
        column: usize,
    },
    /// It is of another form.
    #[error(
        "its schema is {found}, and this version of muster reads {SCHEMA}: replay it with the version that recorded it"
    )]
    Schema {
        /// Which.
        found: String,
    },
    /// It rests on a line that is not there.
    #[error(
        "it holds only what changed, and no whole line is before it: the beginning of the file is missing"
    )]
    NothingBefore,
}

impl From<serde_json::Error> for LineError {
    fn from(error: serde_json::Error) -> Self {
        let column = error.column();
        let what = error.to_string();
        // A line has one line: which is known to who reads the file.
        let what = what.split(" at line ").next().unwrap_or(&what).to_owned();
        Self::Unreadable { what, column }
    }
}

impl Case {
    /// What comes out of the same input now.
    pub fn again(&self) -> Decision {
        plan(&self.spec, &self.memory, &self.units, self.now)
    }

    /// Only the time differs.
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

    /// The units as [`plan`] takes them: ordered by name, each once.
    fn in_order(mut self) -> Self {
        self.units.sort_unstable();
        self.units.dedup_by(|later, first| later.id == first.id);
        self
    }
}

impl Recorder {
    /// Its first line is whole.
    pub fn new(origin: Origin) -> Self {
        Self { origin, last: None }
    }

    /// The next line is whole: it begins a file, or nobody knows what stands before it.
    pub fn begin(&mut self) {
        self.last = None;
    }

    /// Nothing was recorded since the beginning.
    pub fn is_at_the_beginning(&self) -> bool {
        self.last.is_none()
    }

    /// The line of a case, with its end. None: it is as the one before, at another time.
    pub fn line(&mut self, case: Case) -> Result<Option<String>, serde_json::Error> {
        let case = case.in_order();
        if self.last.as_ref().is_some_and(|last| case.repeats(last)) {
            return Ok(None);
        }
        let line = match &self.last {
            Some(last) => Line::after(last, &case),
            None => Line::whole(&self.origin, &case),
        };
        let text = serde_json::to_string(&line)? + "\n";
        self.last = Some(case);
        Ok(Some(text))
    }
}

impl Reader {
    /// The case of the next line.
    pub fn read(&mut self, line: &[u8]) -> Result<&Case, LineError> {
        /// What a line of any form says of its form.
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

    /// Whose decisions the last line is of, and who decided.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }
}
