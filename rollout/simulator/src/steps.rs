//! What steps make of rows, and words for reasons.

use muster_rollout::{Content, Decision, Row, Step, Token, Why};

/// The steps that change rows.
pub fn row_steps(decision: &Decision) -> Vec<&Step> {
    decision
        .steps
        .iter()
        .filter(|step| step.unit().is_some())
        .collect()
}

/// What a step makes of a row. None: it is about no row.
pub fn written(step: &Step, row: Option<Row>) -> Option<(Token, Content)> {
    match step {
        Step::Assign {
            revision,
            digest,
            token,
            ..
        } => Some((
            *token,
            Content::Carries {
                revision: Some(*revision),
                digest: *digest,
            },
        )),
        Step::Withdraw { token, .. } => Some((*token, Content::Withdraw)),
        Step::Fence { token, .. } => Some((*token, row.map_or(Content::Nothing, |row| row.content))),
        Step::Abandon { token, .. } => Some((*token, Content::Nothing)),
        Step::Evaluate { .. } | Step::Conclude { .. } => None,
    }
}

/// The name of a reason without its particulars.
pub fn word(why: &Why) -> String {
    let text = format!("{why:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}
