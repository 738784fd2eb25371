//! Drains: pods are evicted as far as the budget allows.

use std::rc::Rc;

use jiff::SignedDuration;
use muster_api::zonerollout::ZoneRolloutStatus;
use muster_zones::{
    budget::{EvictionOrigin, Facts, Reason, Request, judge, put_on_record},
    model::Set,
};

use super::{
    sets::{State, name},
    world::{Sent, SentWrite, World},
};

/// An eviction between two steps of its review.
pub(crate) struct Evicting {
    set: usize,
    uid: u32,
    record: Option<(u64, ZoneRolloutStatus)>,
    sets: Option<Rc<[Set]>>,
}

impl World {
    /// A node is drained: some pods must be evicted.
    pub(crate) fn drain(&mut self) {
        let set = self.chance.below(self.sets.len());
        let pods = self.sets[set].pods.iter().flatten();
        let uids: Vec<u32> = pods.map(|pod| pod.uid).collect();
        if self.budget.is_some() && !uids.is_empty() {
            let uid = uids[self.chance.below(uids.len())];
            self.drained.push((set, uid));
        }
    }

    /// One step of an eviction.
    pub(crate) fn evict(&mut self) {
        if self.evicting.is_empty() || self.chance.is(200) {
            if !self.drained.is_empty() {
                let at = self.chance.below(self.drained.len());
                let (set, uid) = self.drained.swap_remove(at);
                self.evicting.push(Evicting {
                    set,
                    uid,
                    record: None,
                    sets: None,
                });
            }
            return;
        }
        let at = self.chance.below(self.evicting.len());
        let mut eviction = self.evicting.swap_remove(at);
        if self.chance.is(20) {
            self.tally.kills += 1;
            return;
        }
        if eviction.record.is_none() {
            eviction.record = Some((self.version, self.record.clone()));
            self.evicting.push(eviction);
        } else if eviction.sets.is_none() {
            eviction.sets = Some(self.set_rows());
            self.evicting.push(eviction);
        } else {
            self.judge(&eviction);
        }
    }

    fn judge(&mut self, eviction: &Evicting) {
        let Evicting {
            set,
            uid,
            record: Some((version, status)),
            sets: Some(sets),
        } = eviction
        else {
            return;
        };
        let (set, uid) = (*set, *uid);
        let pods = self.pod_rows();
        let Some(pod) = pods.iter().find(|pod| pod.uid == uid.to_string()) else {
            return;
        };
        let request = Request {
            namespace: "test".to_owned(),
            name: pod.name.clone(),
            dry_run: false,
            origin: EvictionOrigin::Eviction,
        };
        let verdict = judge(
            &request,
            &Facts {
                budgets: &self.budgets,
                pod: Ok(pod.clone()),
                owner: Some(Ok(sets[set].clone())),
                sets: Ok(sets.to_vec()),
                pods: Ok(pods.to_vec()),
                in_flight: &status.in_flight,
                operations: status.operation.as_slice(),
                now: self.now,
            },
        );
        if !verdict.allowed() {
            self.drained.push((set, uid));
            return;
        }
        let Some(entry) = verdict.record else {
            // The pod serves no traffic; the API server evicts such a pod, with its resourceVersion as a precondition.
            assert_eq!(verdict.reason, Reason::PodNotReady);
            if let Some((_, pod)) = self.sets[set].of_uid(uid) {
                pod.state = State::Terminating;
                pod.version += 1;
            }
            return;
        };
        let mut status = status.clone();
        put_on_record(&mut status.in_flight, *entry);
        if !self.write(*version, &status) {
            self.drained.push((set, uid));
            return;
        }
        self.log_event(format!("the eviction of {} {uid} is allowed", name(set)));
        // Another webhook may deny the eviction.
        if self.chance.is(900) {
            let due = self.now + self.chance.seconds(30);
            let what = SentWrite::Pod {
                set,
                uid,
                version: None,
                evicts: true,
            };
            // The API server gives up after a minute.
            let latest = self.now + SignedDuration::from_mins(1);
            self.sent.push(Sent { due, latest, what });
        }
    }
}
