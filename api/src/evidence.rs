//! What a Kustomization reports about its objects in addition to their health, each with one function that writes the
//! message and one that parses it: that some objects are assumed healthy without evidence from their controllers, and
//! the progress of objects that perform rollouts of their own.
//!
//! Both are messages of the Kustomization's condition Healthy: True with the reason [`ASSUMED`], and Unknown.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{conditions::bounded, duration::Duration, schema};

/// The reason of condition Healthy if objects are assumed healthy without evidence.
pub const ASSUMED: &str = "Assumed";

/// Objects that are assumed healthy, because nothing indicated otherwise for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assumed {
    /// The number of objects.
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub count: u32,
    /// The first of the objects, with what its status reports.
    #[schemars(length(max = MAX_FIRST))]
    pub first: String,
    /// How long the sync waited for evidence.
    pub settle: Duration,
}

/// The maximum length of the first object's text, in bytes; a longer text is truncated.
pub const MAX_FIRST: usize = 256;

/// The largest count that is accepted; an inventory holds no more objects than that.
pub const MAX_COUNT: u32 = 100_000;

const ONE: &str = " object without evidence from its controller within ";
const MANY: &str = " objects without evidence from their controllers within ";

impl fmt::Display for Assumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, first, settle } = self;
        if *count == 1 {
            return write!(f, "{count}{ONE}{settle}: {first}");
        }
        write!(
            f,
            "{count}{MANY}{settle}: {first}, and {} more",
            count.saturating_sub(1)
        )
    }
}

impl Assumed {
    /// The same value, truncated to its limits.
    #[must_use]
    pub fn within_limits(&self) -> Self {
        Self {
            count: self.count.clamp(1, MAX_COUNT),
            first: bounded(&self.first, MAX_FIRST).into_owned(),
            settle: self.settle,
        }
    }

    /// Parses the output of `Display`.
    pub fn parse(message: &str) -> Option<Self> {
        let digits = message.find(|character: char| !character.is_ascii_digit())?;
        let (count, rest) = message.split_at(digits);
        let count: u32 = count.parse().ok()?; // not written by `Display`
        let rest = rest.strip_prefix(if count == 1 { ONE } else { MANY })?;
        let (settle, first) = rest.split_once(": ")?;
        let first = match count {
            1 => first,
            _ => first.strip_suffix(&format!(", and {} more", count.saturating_sub(1)))?,
        };
        Some(Self {
            count,
            first: first.to_owned(),
            settle: settle.parse().ok()?, // not written by `Display`
        })
    }
}

const OF: &str = " of ";
const DONE: &str = " done";
const WAITING: &str = ", waiting: ";

/// Progress of an object that performs a rollout of its own: `status.progress` of any custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Number of completed steps.
    pub done: u32,
    /// Total number of steps.
    pub total: u32,
    /// What the object waits for before it continues: an approval, a gate, a soak, a window, the end of a pause. Absent
    /// while it is working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub waiting: Option<String>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, total, waiting } = self;
        write!(f, "{done}{OF}{total}{DONE}")?;
        match waiting {
            Some(waiting) => write!(f, "{WAITING}{waiting}"),
            None => Ok(()),
        }
    }
}

impl Progress {
    /// Parses the output of `Display`.
    pub fn parse(message: &str) -> Option<Self> {
        let (steps, waiting) = match message.split_once(WAITING) {
            Some((steps, waiting)) => (steps, Some(waiting.to_owned())),
            None => (message, None),
        };
        let (done, total) = steps.strip_suffix(DONE)?.split_once(OF)?;
        let number = |digits: &str| digits.parse().ok(); // not written by `Display`
        Some(Self {
            done: number(done)?,
            total: number(total)?,
            waiting,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(count in 0_u32..2_000, first in ".{0,80}", millis in 0_u64..1_000_000) {
            let assumed = Assumed { count, first, settle: Duration::from_millis(millis) };
            prop_assert_eq!(Assumed::parse(&assumed.to_string()), Some(assumed));
        }

        #[test]
        fn progress_is_read_as_it_was_written(done: u32, total: u32, waiting in proptest::option::of("[a-zA-Z][a-z A-Z,:]{0,60}")) {
            let progress = Progress { done, total, waiting };
            prop_assert_eq!(Progress::parse(&progress.to_string()), Some(progress));
        }

        #[test]
        fn other_texts_are_nothing(text in ".{0,80}") {
            prop_assert!(Assumed::parse(&text).is_none_or(|assumed| assumed.to_string() == text));
        }
    }

    #[test]
    fn it_reads_well() {
        let assumed = |count| Assumed {
            count,
            first: "Widget/web/a (Ready=True is from before)".to_owned(),
            settle: Duration::from_secs(30),
        };
        assert_eq!(
            assumed(1).to_string(),
            "1 object without evidence from its controller within 30s: Widget/web/a (Ready=True is from before)"
        );
        assert_eq!(
            assumed(3).to_string(),
            "3 objects without evidence from their controllers within 30s: Widget/web/a (Ready=True is from before), and 2 more"
        );
        assert_eq!(Assumed::parse("Health check passed"), None);
    }
}
