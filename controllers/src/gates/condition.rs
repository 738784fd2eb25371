//! Whether an object has a condition, and at which status. Pure.

use muster_api::rollout::{ConditionGate, ConditionStatus};
use serde_json::Value;

use super::{GateError, judge::Judged};
use crate::bindings::ObjectId;

/// The object that a gate checks.
pub(super) fn gated_object(gate: &ConditionGate) -> ObjectId {
    ObjectId {
        api_version: gate.api_version.clone(),
        kind: gate.kind.clone(),
        namespace: None,
        name: gate.name.clone(),
    }
}

/// Judges an object as read. A condition about an older generation has no meaning for this one.
pub(super) fn judge_condition(found: Option<&Value>, gate: &ConditionGate) -> Result<Judged, GateError> {
    let id = gated_object(gate);
    let found = found.ok_or_else(|| GateError::ObjectMissing(id.clone()))?;
    let conditions = found["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let type_ = gate.type_.clone();
    let Some(condition) = conditions.find(|condition| condition["type"] == *type_) else {
        return Err(GateError::ConditionMissing { object: id, type_ });
    };
    let generation = found["metadata"]["generation"].as_i64();
    let observed = condition["observedGeneration"]
        .as_i64()
        .or_else(|| found["status"]["observedGeneration"].as_i64());
    if let (Some(current), Some(observed)) = (generation, observed)
        && observed < current
    {
        return Err(GateError::Outdated {
            object: Box::new(id),
            type_,
            observed,
            current,
        });
    }
    let status = match condition["status"].as_str() {
        Some("True") => ConditionStatus::True,
        Some("False") => ConditionStatus::False,
        // Any other value is unknown.
        _ => ConditionStatus::Unknown,
    };
    let holds = status == gate.status;
    let not = if holds { "" } else { "not " };
    let reason = condition["reason"].as_str().unwrap_or_default();
    let reason: String = reason
        .chars()
        .filter(|char| !char.is_control())
        .take(64)
        .collect();
    let reason = if reason.is_empty() {
        reason
    } else {
        format!(" ({reason})")
    };
    Ok(Judged {
        holds,
        message: format!("{type_} of {id} is {status:?}{reason}, {not}as required"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(found: Option<&Value>, wanted: &str, expect: Result<(bool, &str), &str>) {
        let gate =
            json!({"apiVersion": "v1", "kind": "Canary", "name": "web", "type": "Ready", "status": wanted});
        let gate: ConditionGate = serde_json::from_value(gate).unwrap();
        match (judge_condition(found, &gate), expect) {
            (Ok(judged), Ok(expect)) => assert_eq!((judged.holds, judged.message.as_str()), expect),
            (Err(error), Err(message)) => assert_eq!(error.to_string(), message),
            (read, expect) => panic!("{found:?}: got {read:?}, not {expect:?}"),
        }
    }

    fn canary(status: &str, rest: &Value) -> Value {
        let mut condition = json!({"type": "Ready", "status": status});
        json_patch::merge(&mut condition, rest);
        let other = json!({"type": "Other", "status": "True"});
        json!({"metadata": {"generation": 3}, "status": {"conditions": [other, condition]}})
    }

    #[test]
    fn each_status() {
        let holds = Ok((true, "Ready of Canary web is True, as required"));
        check(Some(&canary("True", &json!({}))), "True", holds);
        let fails = Ok((false, "Ready of Canary web is False (Slow), not as required"));
        check(Some(&canary("False", &json!({"reason": "Slow"}))), "True", fails);
        let unknown = Ok((true, "Ready of Canary web is Unknown, as required"));
        check(Some(&canary("Unknown", &json!({}))), "Unknown", unknown);
        let odd = Ok((false, "Ready of Canary web is Unknown, not as required"));
        check(Some(&canary("true", &json!({}))), "True", odd);
    }

    #[test]
    fn what_says_nothing() {
        check(None, "True", Err("Canary web does not exist"));
        let none = "Canary web has no condition Ready";
        check(Some(&json!({})), "True", Err(none));
        check(
            Some(&json!({"status": {"conditions": {"Ready": "True"}}})),
            "True",
            Err(none),
        );
        let old = "condition Ready of Canary web is about generation 2, the object is at 3";
        check(
            Some(&canary("True", &json!({"observedGeneration": 2}))),
            "True",
            Err(old),
        );
        let mut as_a_whole = canary("True", &json!({}));
        as_a_whole["status"]["observedGeneration"] = json!(2);
        check(Some(&as_a_whole), "True", Err(old));
        let current = Ok((true, "Ready of Canary web is True, as required"));
        check(
            Some(&canary("True", &json!({"observedGeneration": 3}))),
            "True",
            current,
        );
    }
}
