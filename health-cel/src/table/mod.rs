//! Tables of expressions for kinds whose status the rules of kstatus misread.
//!
//! Invariant: a table that was released never changes: verdicts of a fleet change only where somebody asks for another version. What is
//! wrong in one is corrected in the next (a test holds each by a hash).

mod v1;

use std::fmt::Write as _;

pub use v1::V1;

/// How the health of objects of one kind is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kind's apiVersion; its group alone counts.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The project whose controller writes the status.
    pub operator: &'static str,
    /// What was read of it: versions of the API, of the project, and the age of the statuses.
    pub versions: &'static str,
    /// Why the rules of kstatus misread it.
    pub why: &'static str,
    /// True where its controller has not finished, whatever else its status says.
    pub in_progress: Option<&'static str>,
    /// True where its controller gave up.
    pub failed: Option<&'static str>,
    /// True where it is as its specification says.
    pub current: &'static str,
}

impl Entry {
    /// The group of the kind.
    pub fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// All that verdicts rest on, as one text: the same text is the same table.
pub fn canonical(table: &[Entry]) -> String {
    let mut text = String::new();
    for entry in table {
        let Entry {
            api_version,
            kind,
            operator: _,
            versions: _,
            why: _,
            in_progress,
            failed,
            current,
        } = entry;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{api_version} {kind}");
        for (field, expression) in [
            ("inProgress", *in_progress),
            ("failed", *failed),
            ("current", Some(*current)),
        ] {
            if let Some(expression) = expression {
                let _ = writeln!(text, "  {field}: {expression}");
            }
        }
    }
    text
}
