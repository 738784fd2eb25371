//! Result of a decision: writes, each with a precondition, and when to check again.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::world::{Object, SimulatedKind};

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// As a new object.
    Create,
    /// Replaces the version that it is based on.
    Replace,
    /// Replaces the status of the version that it is based on.
    Status,
    /// Deletes the object with its uid.
    Delete,
    /// Deletes a terminating pod with its uid: it has stopped.
    Stop,
}

/// One write.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// How it is written.
    pub verb: Verb,
    /// The object; for a deletion, the object to delete.
    pub object: Object,
}

/// Writes for one object, in order, and when to check it again without a change.
///
/// Invariant: at most one write to an object, because the next one needs the resource version that the first one makes.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// The writes; the first failure ends the plan.
    pub writes: Vec<Write>,
    /// When to check again.
    pub wake: Option<Timestamp>,
}

impl Plan {
    /// Adds a write.
    pub(super) fn write<K: SimulatedKind>(&mut self, verb: Verb, object: K) {
        self.writes.push(Write {
            verb,
            object: object.erase(),
        });
    }

    /// Schedules a check at `at` or earlier.
    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

/// An instant as objects hold it: whole seconds.
pub(super) fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at)) // always valid
}

/// `at` plus a duration.
pub(super) fn after(at: Timestamp, duration: std::time::Duration) -> Timestamp {
    at.saturating_add(duration).unwrap_or(Timestamp::MAX) // saturates
}

/// A count of objects as the API has it.
pub(super) fn object_count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX) // more than an API server can hold
}

/// A number of the API that is left out if it is zero.
pub(super) fn nonzero(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}
