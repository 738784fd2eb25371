//! The result of judging an object.

use muster_api::evidence::Progress;

use super::Health;

/// The health of an object, and whether its controller has reacted to its creation.
pub(super) struct Judged {
    pub health: Health,
    pub answered: bool,
    /// The zone, if the object is a StatefulSet of a rollout group.
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

/// The state of a StatefulSet of a rollout group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    /// Whether its group has a ZoneRollout: without one, the state that was read may be about to change.
    pub has_rollout: bool,
    /// How many of its pods are done.
    pub progress: Progress,
}
