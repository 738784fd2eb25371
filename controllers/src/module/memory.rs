//! The engine's memory, stored in the module's status.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use muster_api::module::RolloutStatus;
use muster_rollout::Memory;
use parking_lot::Mutex;

use crate::runtime::Key;

/// The encoding of the memory in this version of muster.
pub(crate) const VERSION: u32 = 1;

/// The memory as found in the status.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// The memory; empty if `lost`.
    pub memory: Memory,
    /// Whether the module's memory is missing, cannot be parsed, or belongs to another module (restored, re-created):
    /// then the state of its rows is adopted first (W7).
    pub lost: bool,
}

/// Reads the memory out of the status of the module with this uid.
pub(crate) fn recall(stored: Option<&RolloutStatus>, uid: Option<&str>) -> Recalled {
    let own = stored.filter(|stored| stored.version == VERSION && stored.uid.as_deref() == uid);
    // A memory that cannot be decoded is treated as lost.
    match own.and_then(|own| serde_json::from_str(&own.memory).ok()) {
        Some(memory) => Recalled { memory, lost: false },
        None => Recalled {
            memory: Memory::default(),
            lost: true,
        },
    }
}

/// The memory as stored in the status.
pub(crate) fn store(memory: &Memory, uid: Option<&str>) -> Result<RolloutStatus, serde_json::Error> {
    Ok(RolloutStatus {
        version: VERSION,
        uid: uid.map(str::to_owned),
        memory: serde_json::to_string(memory)?,
    })
}

/// Time without a leader, which must not count against any unit. It is added to the memory that the former leader left,
/// each time that memory is read, and to none written since: a failed write does not lose it, and a successful one does
/// not count it twice.
#[derive(Debug)]
pub(crate) struct Gaps {
    gap: Duration,
    /// Each module's memory when this process first saw it. Bounded by the number of modules.
    left: Mutex<BTreeMap<Key, Option<u64>>>,
}

impl Gaps {
    /// With the time without a leader before this process took over.
    pub(crate) fn new(gap: Duration) -> Self {
        Self {
            gap,
            left: Mutex::default(),
        }
    }

    /// How long there was no leader since the memory in the module's status was written.
    pub(crate) fn before(&self, key: &Key, stored: Option<&RolloutStatus>) -> Duration {
        let now = stored.map(|stored| fingerprint(&stored.memory));
        let left = *self.left.lock().entry(key.clone()).or_insert(now);
        if now.is_some() && now == left {
            self.gap
        } else {
            Duration::ZERO
        }
    }

    /// Drops the entry of a deleted module.
    pub(crate) fn drop_module(&self, key: &Key) {
        self.left.lock().remove(key);
    }
}

/// Distinguishes memories within this process.
fn fingerprint(memory: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    memory.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_added_to_what_the_leader_before_left_and_to_nothing_else() {
        let stored = |memory: &str| RolloutStatus {
            version: VERSION,
            uid: None,
            memory: memory.to_owned(),
        };
        let minute = Duration::from_mins(1);
        let check = |gaps: &Gaps, name: &str, memory: Option<&str>, expect: Duration| {
            assert_eq!(
                gaps.before(&Key::new("fleet", name), memory.map(stored).as_ref()),
                expect,
                "{name} {memory:?}"
            );
        };
        let gaps = Gaps::new(minute);
        check(&gaps, "web", Some("left"), minute);
        // Its write failed: the same memory is read again.
        check(&gaps, "web", Some("left"), minute);
        check(&gaps, "web", Some("written"), Duration::ZERO);
        // A decision on a stale read is as before, and its write fails.
        check(&gaps, "web", Some("left"), minute);
        // A module that is new under this leader was never without one.
        check(&gaps, "new", None, Duration::ZERO);
        check(&gaps, "new", Some("written"), Duration::ZERO);
        check(&Gaps::new(Duration::ZERO), "web", Some("left"), Duration::ZERO);
    }
}
