//! What the engine remembers, in the module's status.

use muster_api::module::{ModuleObject, RolloutStatus};
use muster_rollout::Memory;

/// The encoding of this version of muster.
pub const VERSION: u32 = 1;

/// The memory as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// What is remembered; the empty memory if `lost`.
    pub memory: Memory,
    /// The module had a memory that cannot be read, or is another module's (restored, made again), or it has none: what its rows
    /// say must be believed first (W7).
    pub lost: bool,
}

/// Reads the memory out of a module's status.
pub fn recall<K: ModuleObject>(module: &K) -> Recalled {
    let uid = module.meta().uid.as_deref();
    let stored = module.status().and_then(|status| status.rollout.as_ref());
    let own = stored.filter(|stored| stored.version == VERSION && stored.uid.as_deref() == uid);
    // What cannot be decoded is as good as lost, and treated so.
    match own.and_then(|own| serde_json::from_str(&own.memory).ok()) {
        Some(memory) => Recalled { memory, lost: false },
        None => Recalled {
            memory: Memory::default(),
            lost: true,
        },
    }
}

/// The memory as it is stored.
pub fn store(memory: &Memory, uid: Option<&str>) -> Result<RolloutStatus, serde_json::Error> {
    Ok(RolloutStatus {
        version: VERSION,
        uid: uid.map(str::to_owned),
        memory: serde_json::to_string(memory)?,
    })
}
