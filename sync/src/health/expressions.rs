//! Health expressions: they replace the rules of the kind. The need for evidence stays the same (`evidence`).

use std::sync::Arc;

use muster_health::{DEADLINE, EvaluationError, Expressions, Verdict};
use serde_json::Value;

use super::{Health, fields::list, generic, judged::Judged, terminating};
use crate::cluster::FIELD_MANAGER;

/// The reason if an expression returns something other than a boolean.
pub const NOT_BOOLEAN: &str = "NotBoolean";

/// The reason if an expression cannot be evaluated, for example because a field is missing.
const NO_VALUE: &str = "NoValue";

/// Evaluates the expressions of a kind for an object; with `needs_answer` also whether they depend on a status that the
/// controller wrote.
pub(super) async fn judge_by_expressions(
    live: &Value,
    expressions: &Arc<Expressions>,
    needs_answer: bool,
) -> Judged {
    if let Some(terminating) = terminating(live) {
        return terminating.into();
    }
    let verdict = evaluate(live.clone(), expressions).await;
    let answered = needs_answer && is_answer(live, &verdict, expressions).await;
    Judged {
        health: health(live, verdict),
        answered,
        zone: None,
    }
}

async fn evaluate(object: Value, expressions: &Arc<Expressions>) -> Result<Verdict, EvaluationError> {
    Arc::clone(expressions).judge(object, DEADLINE).await
}

/// Whether the result for a newly created object depends on a status that its controller wrote: without the status the
/// result differs, and the status is not from our manifest.
async fn is_answer(
    live: &Value,
    verdict: &Result<Verdict, EvaluationError>,
    expressions: &Arc<Expressions>,
) -> bool {
    if !matches!(verdict, Ok(Verdict::Current | Verdict::Failed)) || we_wrote_status(live) {
        return false;
    }
    let mut created = live.clone();
    if let Some(fields) = created.as_object_mut() {
        fields.remove("status");
    }
    evaluate(created, expressions).await != *verdict
}

fn we_wrote_status(live: &Value) -> bool {
    list(live, "/metadata/managedFields")
        .any(|entry| entry["manager"] == FIELD_MANAGER && entry["fieldsV1"].get("f:status").is_some())
}

fn health(live: &Value, verdict: Result<Verdict, EvaluationError>) -> Health {
    match verdict {
        Ok(Verdict::Current) => Health::current("current is true"),
        Ok(Verdict::Failed) => Health::stalled("Failed", "failed is true"),
        Ok(Verdict::InProgress) => Health::in_progress("InProgress", "inProgress is true"),
        Ok(Verdict::NotCurrent) => Health::in_progress("NotCurrent", "current is not true"),
        Ok(Verdict::NotObserved) => generic(live).unwrap_or_else(|| {
            Health::in_progress("LatestGenerationNotObserved", "its generation is not observed")
        }),
        // An expression that cannot be evaluated yet may succeed once the controller has written more.
        Err(error) => {
            let reason = match error {
                EvaluationError::NotBoolean { .. } => NOT_BOOLEAN,
                _ => NO_VALUE,
            };
            Health::in_progress(reason, error.to_string())
        }
    }
}
