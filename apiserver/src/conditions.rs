//! Conditions in the `status` of an object that is a JSON value.

use serde_json::Value;

/// Sets a condition of `status`; if its status did not change, keeps the last transition time.
pub(crate) fn set_condition(object: &mut Value, mut condition: Value, now: &str) {
    let mut conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default(); // none yet
    if let Some(old) = conditions.iter_mut().find(|c| c["type"] == condition["type"]) {
        let same = old["status"] == condition["status"];
        condition["lastTransitionTime"] = if same {
            old["lastTransitionTime"].clone()
        } else {
            now.into()
        };
        *old = condition;
    } else {
        condition["lastTransitionTime"] = now.into();
        conditions.push(condition);
    }
    object["status"]["conditions"] = conditions.into();
}
