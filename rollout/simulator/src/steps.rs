//! Steps that change assignments, and names of reasons.

use muster_rollout::{Decision, Step, Why};

/// The steps that change assignments.
pub fn assignment_steps(decision: &Decision) -> Vec<&Step> {
    decision
        .steps
        .iter()
        .filter(|step| step.unit().is_some())
        .collect()
}

/// The name of a reason without its details.
pub fn word(why: &Why) -> String {
    let text = format!("{why:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}
