//! Conditions of objects, as shown.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

/// A condition of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// Condition type, such as `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Reason, one CamelCase word.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Last transition time.
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
