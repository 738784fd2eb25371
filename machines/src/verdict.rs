//! The answer to `CanUpdateMachine` and `CanUpdateMachineSet`.

use crate::{
    coverage::{Covered, Difference},
    objects::Part,
    patch::Patch,
};

/// What happens to machines whose change the updaters do not cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Cluster API replaces them.
    #[default]
    Replace,
    /// They stay as they are until the change is covered or reverted.
    Hold,
}

impl Fallback {
    /// Parses the value of an annotation; `None` if it is neither `Replace` nor `Hold`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Replace" => Some(Self::Replace),
            "Hold" => Some(Self::Hold),
            _ => None,
        }
    }
}

/// Why there is no decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No updater is configured for the hook.
    #[error("no updater is configured")]
    NoUpdaters,
    /// An updater gave no readable answer, or reported a failure.
    #[error("updater {updater}: {problem}")]
    Updater {
        /// The name of the updater.
        updater: String,
        /// The error message.
        problem: String,
    },
    /// The time of the request ended before all updaters were asked; with the next updater.
    #[error("there was no time left to ask updater {0}")]
    NoTime(String),
}

/// The answer to Cluster API.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Update in place with this plan, which must be stored before the response is sent.
    InPlace {
        /// The updaters, in order.
        steps: Vec<String>,
        /// The digest of the desired objects.
        digest: String,
        /// The changes of the updaters.
        patches: Vec<(Part, Patch)>,
    },
    /// Not in place: Cluster API replaces the machines, and keeps this answer.
    Replace(String),
    /// Neither an in-place update nor a replacement: an error, which Cluster API does not cache. It asks again, and
    /// changes nothing in between.
    Hold(String),
    /// No decision: an error, as for `Hold`. The next answer may differ.
    Again(String),
}

/// Decides on the answer. A missing answer is no decision, whatever the fallback; a missing updater is one.
pub fn verdict(outcome: Result<Covered, Unanswered>, fallback: Fallback) -> Verdict {
    let not_covered = |words: String| match fallback {
        Fallback::Replace => Verdict::Replace(words),
        Fallback::Hold => Verdict::Hold(format!(
            "held: {words}. The machines stay as they are until an updater covers the change or it is reverted"
        )),
    };
    match outcome {
        Ok(Covered::InPlace {
            steps,
            digest,
            patches,
        }) => Verdict::InPlace {
            steps,
            digest,
            patches,
        },
        Ok(Covered::NotCovered(left)) => not_covered(describe_differences(&left)),
        Err(Unanswered::NoUpdaters) => not_covered(Unanswered::NoUpdaters.to_string()),
        Err(problem) => Verdict::Again(problem.to_string()),
    }
}

fn describe_differences(left: &[Difference]) -> String {
    let one = |difference: &Difference| match &difference.fields[..] {
        [] => format!("{} cannot be updated in place", difference.kind),
        fields => format!(
            "{} cannot be updated in place: {}",
            difference.kind,
            fields.join(", ")
        ),
    };
    let all: Vec<String> = left.iter().map(one).collect();
    all.join("; ")
}
