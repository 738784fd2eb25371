//! What Cluster API is answered to a question whether a change can be made in place.

use crate::{
    coverage::{Covered, Difference},
    objects::Part,
    patch::Patch,
};

/// What is to become of machines whose change the updaters do not cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Cluster API replaces them.
    #[default]
    Replace,
    /// They stay as they are until the change is covered, or taken back.
    Hold,
}

impl Fallback {
    /// As an annotation says it; nothing if it is neither.
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
    /// An updater gave no answer that can be read, or says that it failed.
    #[error("updater {updater}: {problem}")]
    Updater {
        /// Its name.
        updater: String,
        /// In words.
        problem: String,
    },
    /// The time of the request is over before all were asked.
    #[error("there was no time left to ask updater {0}")]
    NoTime(String),
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// In place, by this plan, which is to be stored before it is answered.
    InPlace {
        /// The updaters, in their order.
        steps: Vec<String>,
        /// The digest of what is desired.
        digest: String,
        /// What they change.
        patches: Vec<(Part, Patch)>,
    },
    /// Not in place: Cluster API replaces the machines, and keeps this answer.
    Replace(String),
    /// Not in place, and not by replacement: an error, which Cluster API does not keep. It asks again, and changes nothing meanwhile.
    Hold(String),
    /// No decision: an error, as above. The next answer may be another.
    Again(String),
}

/// Decides. No answer is no decision, whatever the fallback; that no updater is configured is an answer.
pub fn verdict(outcome: Result<Covered, Unanswered>, fallback: Fallback) -> Verdict {
    let not_covered = |words: String| match fallback {
        Fallback::Replace => Verdict::Replace(words),
        Fallback::Hold => Verdict::Hold(format!(
            "held: {words}. The machines stay as they are until an updater covers it or the change is taken back"
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
        Ok(Covered::NotCovered(left)) => not_covered(words(&left)),
        Err(Unanswered::NoUpdaters) => not_covered(Unanswered::NoUpdaters.to_string()),
        Err(problem) => Verdict::Again(problem.to_string()),
    }
}

fn words(left: &[Difference]) -> String {
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
