//! The effect of control annotations, as reported in a module's status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A control annotation and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlStatus {
    /// Name of the annotation, such as fleet.muster.dev/hold.
    #[schemars(length(max = schema::MAX_LABEL_KEY))]
    pub control: String,
    /// The cluster that the annotation applies to; absent: the whole module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub cluster: Option<String>,
    /// Effect of the annotation: Applied, WithoutEffect (the message says why) or Over (it has expired).
    pub effect: Effect,
    /// Who set the annotation, why, when, and until when; or what is wrong with it.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}

/// The effect of a control annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Effect {
    /// The control cannot take effect; its subject is left unchanged.
    WithoutEffect,
    /// The control is in effect.
    Applied,
    /// The control has expired.
    Over,
}

impl Effect {
    /// The human-readable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WithoutEffect => "no effect",
            Self::Applied => "in effect",
            Self::Over => "expired",
        }
    }
}
