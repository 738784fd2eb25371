//! What became of what people say by annotations, as a module's status tells it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// An annotation of a person, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlStatus {
    /// The annotation, such as fleet.muster.dev/hold.
    #[schemars(length(max = schema::MAX_LABEL_KEY))]
    pub control: String,
    /// The cluster that it is about; absent: the module as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub cluster: Option<String>,
    /// Applied, WithoutEffect (the message says why) or Over (its time has ended).
    pub effect: Effect,
    /// Who, why, since when and until when; or what is wrong with it.
    #[serde(default)]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Effect {
    /// It cannot do what it is for; what it is about is left as it is.
    WithoutEffect,
    /// It holds.
    Applied,
    /// Its time has ended.
    Over,
}

impl Effect {
    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WithoutEffect => "no effect",
            Self::Applied => "in effect",
            Self::Over => "expired",
        }
    }
}
