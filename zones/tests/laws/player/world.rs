//! The simulated world: the state of the API server, requests in flight to it, and the laws.

use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use muster_api::{
    Duration,
    zonerollout::{Operation, ZoneRolloutSpec, ZoneRolloutStatus},
};
use muster_zones::{
    budget::KnownBudgets,
    model::{Group, Pod, Set},
    scale::{Settings, times::begun},
};
use serde_json::json;

use super::{
    Tally,
    chance::Chance,
    drains::Evicting,
    leaders::Leader,
    reviews::Reviewing,
    sets::{GROUP, MIN_TIME, SimPod, SimSet, State, name},
};

/// How many events are shown for a violated law.
const SHOWN: usize = 60;

/// Description of a violated law.
pub(crate) type Holds = Result<(), String>;

/// A request to the API server in flight. It arrives between two points in time, or never.
pub(crate) struct Sent {
    pub due: Timestamp,
    pub latest: Timestamp,
    pub what: SentWrite,
}

pub(crate) enum SentWrite {
    /// The deletion, or the allowed eviction, of a pod; if a resourceVersion is given, only if the pod still has it.
    Pod {
        set: usize,
        uid: u32,
        version: Option<u64>,
        evicts: bool,
    },
    /// An allowed change of replicas, if the set still has this resourceVersion. `started`: the pods that were running
    /// when it was reviewed.
    Replicas {
        set: usize,
        to: usize,
        version: u64,
        started: Vec<u32>,
        by: Option<usize>,
    },
}

pub(crate) struct World {
    pub chance: Chance,
    pub sets: Vec<SimSet>,
    pub spec: ZoneRolloutSpec,
    pub record: ZoneRolloutStatus,
    /// The resourceVersion of the ZoneRollout.
    pub version: u64,
    pub leaders: [Leader; 2],
    pub reviews: Vec<Reviewing>,
    /// Pods that must be evicted, by set and uid.
    pub drained: Vec<(usize, u32)>,
    pub evicting: Vec<Evicting>,
    pub sent: Vec<Sent>,
    /// Until when the network delays requests by minutes.
    pub outage: Timestamp,
    /// The budgets, if evictions are guarded.
    pub budgets: KnownBudgets,
    /// Maximum number of unavailable pods of a zone, according to the budget.
    pub budget: Option<usize>,
    pub now: Timestamp,
    pub next_uid: u32,
    pub history: Vec<String>,
    pub tally: Tally,
    /// How many of ten user and machine events change the template.
    pub releases: usize,
    /// The replicas that the autoscaler has requested without success so far.
    pub wanted: Option<(usize, usize)>,
    rows: Option<Rows>,
}

/// The version of sets and pods, and their decision input.
type Rows = (u64, Rc<[Set]>, Rc<[Pod]>);

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let zones = 1 + chance.below(5);
        let most = if chance.is(100) { 20 } else { 5 };
        let (follow, prepares) = (chance.is(400), chance.is(600));
        let limit = 1 + chance.below(3);
        let mut next_uid = 0;
        let together = 1 + chance.below(most);
        let mut sets: Vec<SimSet> = (0..zones)
            .map(|index| {
                let replicas = if follow { together } else { 1 + chance.below(most) };
                SimSet::new(index, replicas, limit, &mut next_uid)
            })
            .collect();
        for set in &mut sets {
            set.follows = follow && set.index > 0;
            set.prepares = prepares;
        }
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let mut spec = ZoneRolloutSpec {
            group: GROUP.to_owned(),
            ..ZoneRolloutSpec::default()
        };
        spec.progress_deadline = chance.is(400).then(|| Duration::from_secs(60));
        spec.soak = chance.is(300).then(|| Duration::from_secs(40));
        let rows: Vec<Set> = sets.iter().map(SimSet::row).collect();
        let budget = (zones > 1 && chance.is(700)).then(|| 1 + chance.below(2));
        let mut budgets = KnownBudgets::default();
        if let Some(limit) = budget {
            budgets.put(&json!({
                "kind": "ZoneAwarePodDisruptionBudget",
                "metadata": {"name": GROUP, "uid": "budget", "generation": 1},
                "spec": {"maxUnavailable": limit, "selector": {"matchLabels": {"rollout-group": GROUP}}},
            }));
        }
        let releases = chance.below(4);
        Self {
            chance,
            sets,
            spec,
            record: begun(None, &rows, now),
            version: 0,
            leaders: [Leader::default(), Leader::default()],
            reviews: Vec::new(),
            drained: Vec::new(),
            evicting: Vec::new(),
            sent: Vec::new(),
            outage: Timestamp::MIN,
            budgets,
            budget,
            now,
            next_uid,
            history: Vec::new(),
            tally: Tally::default(),
            releases,
            wanted: None,
            rows: None,
        }
    }

    /// A request that was decided at a point in time arrives before this time, or never: an operation is held for as
    /// long.
    pub(crate) fn latest(intended: Timestamp) -> Timestamp {
        intended + Self::settings().timeout + SignedDuration::from_secs(30)
    }

    pub(crate) fn settings() -> Settings {
        Settings {
            namespace: "test".to_owned(),
            cluster_domain: "cluster.local.".to_owned(),
            timeout: SignedDuration::from_secs(30),
        }
    }

    pub(crate) fn log_event(&mut self, event: impl std::fmt::Display) {
        if self.history.len() >= 2 * SHOWN {
            self.history.drain(..SHOWN);
        }
        let at = self.now;
        self.history.push(format!("{at} {event}"));
    }

    /// A violated law, with the preceding events.
    pub(crate) fn broken(&self, law: &str) -> String {
        let first = self.history.len().saturating_sub(SHOWN);
        let pod = |pod: &Option<SimPod>| match pod {
            Some(pod) => format!("{:?} r{} prepared: {}", pod.state, pod.revision, pod.prepared),
            None => "missing".to_owned(),
        };
        let set = |set: &SimSet| {
            let pods: Vec<String> = set.pods.iter().map(pod).collect();
            format!(
                "{} of {} at r{}: {pods:?}",
                name(set.index),
                set.replicas,
                set.template
            )
        };
        let sets: Vec<String> = self.sets.iter().map(set).collect();
        format!(
            "{law}\n{}\n{}\n{:#?}",
            self.history[first..].join("\n"),
            sets.join("\n"),
            self.record
        )
    }

    pub(crate) fn set_rows(&mut self) -> Rc<[Set]> {
        Rc::clone(&self.rows().1)
    }

    pub(crate) fn pod_rows(&mut self) -> Rc<[Pod]> {
        Rc::clone(&self.rows().2)
    }

    /// The decision input for the current state, rebuilt if something has changed.
    fn rows(&mut self) -> &Rows {
        let print = self.print();
        if self.rows.as_ref().is_none_or(|rows| rows.0 != print) {
            let sets = self.sets.iter().map(SimSet::row).collect();
            let pods = self.sets.iter().flat_map(SimSet::rows).collect();
            self.rows = Some((print, sets, pods));
        }
        self.rows.as_ref().unwrap()
    }

    /// A fingerprint of all sets and pods with their versions.
    pub(crate) fn print(&self) -> u64 {
        let of_set = |set: &SimSet| {
            let pods = set.pods.iter().flatten();
            pods.fold(set.version, |print, pod| {
                mixed(mixed(print, u64::from(pod.uid)), pod.version)
            })
        };
        self.sets.iter().map(of_set).fold(0, mixed)
    }

    /// The group as it was read.
    pub(crate) fn group(
        sets: &[Set],
        pods: &[Pod],
        spec: ZoneRolloutSpec,
        status: ZoneRolloutStatus,
    ) -> Group {
        Group::new(GROUP, sets.to_vec(), pods).with(spec, status)
    }

    /// Writes the status if the record has that version; returns whether it did.
    pub(crate) fn write(&mut self, version: u64, status: &ZoneRolloutStatus) -> bool {
        if version != self.version {
            self.tally.conflicts += 1;
            return false;
        }
        if self.record != *status {
            if self.record.operation != status.operation {
                let operation = status.operation.as_ref();
                let of = operation.map_or_else(
                    || "none".to_owned(),
                    |operation| {
                        let Operation {
                            kind,
                            set,
                            to,
                            admission_uids,
                            ..
                        } = operation;
                        format!("{kind:?} of {set} to {to:?}, held by {admission_uids:?}")
                    },
                );
                self.log_event(format!("the operation is {of}"));
            }
            self.record = status.clone();
            self.version += 1;
        }
        true
    }

    /// A request that is due arrives at the API server: the only way in which muster disturbs anything.
    pub(crate) fn arrive(&mut self) -> Holds {
        let due: Vec<usize> = (0..self.sent.len())
            .filter(|at| self.sent[*at].due <= self.now)
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        let at = due[self.chance.below(due.len())];
        let Sent { latest, what, .. } = self.sent.swap_remove(at);
        let in_time = self.now < latest;
        match what {
            SentWrite::Pod {
                set,
                uid,
                version,
                evicts,
            } => {
                let (_, pod) = self.sets[set].of_uid(uid).unzip();
                if in_time && pod.is_some_and(|pod| version.is_none_or(|version| version == pod.version)) {
                    return self.remove(set, uid, evicts);
                }
                Ok(())
            }
            SentWrite::Replicas {
                set,
                to,
                version,
                started,
                by,
            } => {
                let is_same = self.sets[set].version == version && in_time;
                if let Some(leader) = by {
                    self.leaders[leader].answered(is_same);
                }
                if is_same {
                    self.fall(set, to, &started)
                } else {
                    Ok(())
                }
            }
        }
    }

    fn remove(&mut self, index: usize, uid: u32, evicts: bool) -> Holds {
        let Some((ordinal, pod)) = self.sets[index].of_uid(uid) else {
            return Ok(());
        };
        if pod.state == State::Terminating {
            return Ok(());
        }
        let disturbs = pod.state == State::Ready;
        pod.state = State::Terminating;
        pod.version += 1;
        // A surplus pod is removed anyway.
        let disturbs = disturbs && ordinal < self.sets[index].replicas;
        self.sets[index].ours[ordinal] |= disturbs;
        let what = if evicts { "eviction" } else { "deletion" };
        self.log_event(format!("{what} of {}-{ordinal} {uid} arrives", name(index)));
        *(if evicts {
            &mut self.tally.evictions
        } else {
            &mut self.tally.deletions
        }) += 1;
        if !disturbs {
            return Ok(());
        }
        self.one_zone()?;
        let set = &self.sets[index];
        let ours = set.ours.iter().filter(|ours| **ours).count();
        if ours > set.limit.max(self.budget.unwrap_or_default()) {
            return Err(self.broken(&format!("{ours} pods of {} are disturbed", name(index))));
        }
        Ok(())
    }

    fn one_zone(&self) -> Holds {
        let disturbed: Vec<usize> = self
            .sets
            .iter()
            .filter(|set| set.is_ours())
            .map(|set| set.index)
            .collect();
        if disturbed.len() > 1 {
            return Err(self.broken(&format!("zones {disturbed:?} are disturbed")));
        }
        Ok(())
    }

    /// An allowed downscale is performed.
    fn fall(&mut self, index: usize, to: usize, started: &[u32]) -> Holds {
        let (now, from) = (self.now, self.sets[index].replicas);
        self.log_event(format!("{} falls from {from} to {to}", name(index)));
        self.tally.downscales += 1;
        let set = &mut self.sets[index];
        set.scaled(to);
        set.leaving = set.pods.len() > to;
        let is_unprepared = |pod: &&SimPod| !pod.prepared && started.contains(&pod.uid);
        let leaving = set.pods.iter().skip(to).flatten();
        let prepares = set.prepares;
        if let Some(pod) = leaving.clone().find(is_unprepared).filter(|_| prepares) {
            let law = format!("pod {} of {} leaves unprepared", pod.uid, name(index));
            return Err(self.broken(&law));
        }
        set.fell = Some(now);
        self.one_zone()?;
        let mut others = self.sets.iter().filter(|set| set.index != index && set.prepares);
        // Recorded times have whole seconds.
        let wait = SignedDuration::from_secs(MIN_TIME - 1);
        let soon = others.find(|set| set.fell.is_some_and(|fell| now.duration_since(fell) < wait));
        if let Some(other) = soon {
            let law = format!("{} falls too soon after {}", name(index), name(other.index));
            return Err(self.broken(&law));
        }
        Ok(())
    }

    /// Pods and statuses change.
    pub(crate) fn cluster(&mut self) {
        let index = self.chance.below(self.sets.len());
        if self.chance.is(250) {
            self.sets[index].report();
        } else {
            self.sets[index].moves(&mut self.chance, &mut self.next_uid);
        }
    }
}

fn mixed(print: u64, with: u64) -> u64 {
    (print ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}
