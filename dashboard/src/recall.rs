//! What the rollout engine remembers of a module, as far as pages tell it.

use jiff::Timestamp;
use muster_api::module::ModuleStatus;
use muster_rollout::{Memory, Millis};

/// The encoding that can be read.
const VERSION: u32 = 1;

/// The memory in a module's status; none if there is none, or it is of another version of muster.
pub(crate) fn memory(status: &ModuleStatus) -> Option<Memory> {
    let stored = status
        .rollout
        .as_ref()
        .filter(|stored| stored.version == VERSION)?;
    serde_json::from_str(&stored.memory).ok() // what cannot be read says nothing
}

/// An instant of the engine.
pub(crate) fn instant(at: Millis) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok() // no such time: none is told
}
