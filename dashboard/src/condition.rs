//! Conditions of objects, as they are shown.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

/// A condition of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// The one word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

impl ConditionView {
    /// The conditions of an object, in their order.
    pub fn all(conditions: &[Condition]) -> Vec<Self> {
        let views = conditions.iter().map(|condition| Self {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: condition.last_transition_time.0,
        });
        views.collect()
    }
}
