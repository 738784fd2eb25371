//! Tables of expressions for kinds whose status the kstatus rules misread.
//!
//! Invariant: a released table never changes: verdicts of a fleet change only when another version is requested. Errors
//! are corrected in the next version (a test checks each table by a hash).

mod v1;

use std::fmt::Write as _;

pub use v1::V1;

/// The health expressions of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The apiVersion of the kind; only its group is used.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The project whose controller writes the status.
    pub operator: &'static str,
    /// What the expressions are based on: versions of the API and of the project, and the age of the statuses.
    pub versions: &'static str,
    /// Why the kstatus rules misread it.
    pub why: &'static str,
    /// True while the controller has not finished, whatever the rest of the status says.
    pub in_progress: Option<&'static str>,
    /// True when the controller gave up.
    pub failed: Option<&'static str>,
    /// True when the object matches its spec.
    pub current: &'static str,
}

impl Entry {
    /// The group of the kind.
    pub fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Everything that verdicts depend on, as one text: equal texts mean equal tables.
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
