//! What was found of an object.

use muster_api::evidence::Progress;

use super::Health;

/// The health of an object, and whether it is an answer to its creation.
pub(super) struct Judged {
    pub health: Health,
    pub answered: bool,
    /// What is known of its zone, if it is a StatefulSet of a rollout group.
    pub zone: Option<Zone>,
}

impl From<Health> for Judged {
    fn from(health: Health) -> Self {
        Self {
            health,
            answered: false,
            zone: None,
        }
    }
}

/// What is known of a StatefulSet of a rollout group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    /// Whether there is a ZoneRollout of its group: without one nothing says that what is read is not about to change.
    pub has_rollout: bool,
    /// How many of its pods are as they are to be.
    pub progress: Progress,
}
