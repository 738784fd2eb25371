//! Conversion of instants between the engine and Kubernetes objects. Pure.

use jiff::Timestamp;
use muster_rollout::Millis;

/// Milliseconds since the epoch, for the engine.
pub(crate) fn millis(at: Timestamp) -> Millis {
    // Only a host whose clock is before 1970 gives a negative number.
    Millis(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

/// A timestamp, for objects.
pub(crate) fn timestamp(at: Millis) -> Timestamp {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// A timestamp in whole seconds, for messages.
pub(crate) fn instant(at: Millis) -> Timestamp {
    let seconds = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}
