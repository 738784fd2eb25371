//! The rollout engine's memory of a module, as far as pages show it.

use jiff::Timestamp;
use muster_api::module::ModuleStatus;
use muster_rollout::{Memory, Millis};

/// Supported version of the encoding.
const VERSION: u32 = 1;

/// The memory in a module's status; `None` if there is none, or another version of muster wrote it.
pub(crate) fn memory(status: &ModuleStatus) -> Option<Memory> {
    let stored = status
        .rollout
        .as_ref()
        .filter(|stored| stored.version == VERSION)?;
    serde_json::from_str(&stored.memory).ok() // unreadable memory counts as none
}

/// Converts an instant of the engine.
pub(crate) fn instant(at: Millis) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok() // not a valid time: not shown
}
