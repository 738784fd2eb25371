//! Which node agents are alive: their Leases are renewed, by this process's own clock. Clocks of nodes have no
//! influence.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// How long a Lease that is not renewed counts as that of a live agent; an agent renews it every 10 seconds.
pub const GRACE: Duration = Duration::from_mins(1);

/// The Leases as read so far.
#[derive(Debug, Default)]
pub struct Agents(Mutex<BTreeMap<String, Renewal>>);

/// The last version of a Lease, and when this process read it first.
#[derive(Clone, Debug)]
struct Renewal {
    version: String,
    at: Timestamp,
}

impl Agents {
    /// Records a Lease of a node. A Lease read for the first time counts from now: after a restart every agent has its
    /// full grace period.
    pub fn record_lease(&self, node: &str, version: &str, now: Timestamp) {
        let mut all = self.0.lock();
        match all.get_mut(node) {
            Some(known) if known.version == version => {}
            _ => {
                let version = version.to_owned();
                all.insert(node.to_owned(), Renewal { version, at: now });
            }
        }
    }

    /// Drops the Lease of a node.
    pub fn remove(&self, node: &str) {
        self.0.lock().remove(node);
    }

    /// Since when the agent of a node has not renewed its Lease. `None`: it is alive.
    pub fn missing(&self, node: &str, now: Timestamp) -> Option<Missing> {
        let all = self.0.lock();
        let Some(renewal) = all.get(node) else {
            return Some(Missing::Never);
        };
        (now >= end(renewal.at)).then_some(Missing::Since(renewal.at))
    }

    /// When the first of the live agents of these nodes would count as missing if it stops renewing its Lease.
    pub fn next_change(&self, nodes: &BTreeSet<&str>, now: Timestamp) -> Option<Timestamp> {
        let all = self.0.lock();
        let ends = nodes.iter().filter_map(|node| Some(end(all.get(*node)?.at)));
        ends.filter(|end| *end > now).min()
    }
}

fn end(at: Timestamp) -> Timestamp {
    let grace = SignedDuration::try_from(GRACE).unwrap_or(SignedDuration::MAX);
    at.checked_add(grace).unwrap_or(Timestamp::MAX)
}

/// Why an agent counts as missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The node has no Lease.
    Never,
    /// Its Lease was last renewed at this time.
    Since(Timestamp),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_agent_lives_for_a_minute_after_its_lease_was_read_with_a_new_version() {
        let agents = Agents::default();
        assert_eq!(agents.missing("n1", at(0)), Some(Missing::Never));
        agents.record_lease("n1", "7", at(0));
        agents.record_lease("n1", "7", at(50));
        assert_eq!(agents.missing("n1", at(59)), None);
        assert_eq!(agents.missing("n1", at(60)), Some(Missing::Since(at(0))));
        agents.record_lease("n1", "8", at(70));
        assert_eq!(agents.missing("n1", at(129)), None);
        agents.record_lease("n2", "1", at(100));
        let both = BTreeSet::from(["n1", "n2", "n3"]);
        assert_eq!(agents.next_change(&both, at(100)), Some(at(130)));
        assert_eq!(agents.next_change(&both, at(130)), Some(at(160)));
        agents.remove("n1");
        assert_eq!(agents.missing("n1", at(129)), Some(Missing::Never));
    }
}
