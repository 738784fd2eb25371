//! What the engine remembers, in the module's status.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use muster_api::module::RolloutStatus;
use muster_rollout::Memory;
use parking_lot::Mutex;

use crate::runtime::Key;

/// The encoding of this version of muster.
pub(crate) const VERSION: u32 = 1;

/// The memory as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// What is remembered; the empty memory if `lost`.
    pub memory: Memory,
    /// The module had a memory that cannot be read, or is another module's (restored, made again), or it has none: what its rows
    /// say must be believed first (W7).
    pub lost: bool,
}

/// Reads the memory out of the status of the module with this uid.
pub(crate) fn recall(stored: Option<&RolloutStatus>, uid: Option<&str>) -> Recalled {
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
pub(crate) fn store(memory: &Memory, uid: Option<&str>) -> Result<RolloutStatus, serde_json::Error> {
    Ok(RolloutStatus {
        version: VERSION,
        uid: uid.map(str::to_owned),
        memory: serde_json::to_string(memory)?,
    })
}

/// The time in which nobody led is on no unit's account. It is added to the memory that the leader before left, as often as that is
/// read, and to none that was written since: a failed write does not lose it, and a successful one does not count it twice.
#[derive(Debug)]
pub(crate) struct Gaps {
    gap: Duration,
    /// What each module's memory was when this process first saw it. Bounded by the number of modules.
    left: Mutex<BTreeMap<Key, Option<u64>>>,
}

impl Gaps {
    /// So long nobody led before this process did.
    pub(crate) fn new(gap: Duration) -> Self {
        Self {
            gap,
            left: Mutex::default(),
        }
    }

    /// How long nobody led since the memory was written that stands in the module's status.
    pub(crate) fn before(&self, key: &Key, stored: Option<&RolloutStatus>) -> Duration {
        let now = stored.map(|stored| fingerprint(&stored.memory));
        let left = *self.left.lock().entry(key.clone()).or_insert(now);
        if now.is_some() && now == left {
            self.gap
        } else {
            Duration::ZERO
        }
    }

    /// A module is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.left.lock().remove(key);
    }
}

/// Tells one memory from another within this process.
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
        // Its write failed: the same is read again.
        check(&gaps, "web", Some("left"), minute);
        check(&gaps, "web", Some("written"), Duration::ZERO);
        // A stale read is decided on as before; its write fails.
        check(&gaps, "web", Some("left"), minute);
        // A module that is new under this leader was never without one.
        check(&gaps, "new", None, Duration::ZERO);
        check(&gaps, "new", Some("written"), Duration::ZERO);
        check(&Gaps::new(Duration::ZERO), "web", Some("left"), Duration::ZERO);
    }
}
