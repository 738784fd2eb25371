//! Instants as the engine has them, and as objects do. Pure.

use jiff::Timestamp;
use muster_rollout::Millis;

/// As the engine has it.
pub(crate) fn millis(at: Timestamp) -> Millis {
    // Only a host whose clock stands before 1970 gives a negative number.
    Millis(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

/// As objects have it.
pub(crate) fn timestamp(at: Millis) -> Timestamp {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// An instant of the engine, in whole seconds: what people read.
pub(crate) fn instant(at: Millis) -> Timestamp {
    let seconds = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}
