//! What others ask for: evictions, and fewer or more replicas.

use jiff::{SignedDuration, Timestamp};
use muster_api::zonerollout::InFlight;
use muster_zones::{
    admit::{Fact, Read, Record, Request, Step, Webhook, WriteError, Zones, prepare::Prepare},
    budget::{self, Asked, Known},
    scale::pods::{Answer, Answered, Ask, Method},
};
use serde_json::{Value, json};

use crate::{APART, GROUP, Sent, State, TIMEOUT, World, labels, settings};

/// An eviction that was judged and is not on record yet.
pub struct Eviction {
    read: u64,
    record: InFlight,
}

/// A review of fewer replicas.
pub struct Downscale {
    webhook: Prepare,
    step: Step,
    set: usize,
    generation: i64,
    to: usize,
    began: Timestamp,
}

/// A change that was allowed.
pub struct Change {
    set: usize,
    generation: i64,
    to: usize,
    began: Timestamp,
    due: Timestamp,
    until: Timestamp,
}

impl World {
    /// A pod is asked for something, or does not answer.
    pub fn ask(&mut self, ask: &Ask) -> Answered {
        if self.chance.is(5) {
            return Err("no answer".to_owned());
        }
        let (set, ordinal) = ask.pod.rsplit_once('-').unwrap();
        let set: usize = set.trim_start_matches("zone-").parse().unwrap();
        let pod = self.sets[set].pods[ordinal.parse::<usize>().unwrap()].as_mut();
        let pod = pod.ok_or("no such pod")?;
        pod.prepared = ask.method == Method::Post;
        Ok(Answer {
            status: 200,
            body: String::new(),
        })
    }

    /// One step of an eviction: it is judged, or put on record and then sent.
    pub fn evict(&mut self) {
        if let Some(Eviction { read, record }) = self.eviction.take() {
            if read != self.version {
                return;
            }
            let set: usize = record.set.trim_start_matches("zone-").parse().unwrap();
            let uid: u32 = record.uid.parse().unwrap();
            self.history.push(format!("{} {uid} is evicted", record.pod));
            self.record.in_flight.retain(|entry| entry.uid != record.uid);
            self.record.in_flight.push(record);
            self.version += 1;
            let late = i64::try_from(self.chance.below(10)).unwrap();
            self.sent.push(Sent {
                set,
                uid,
                due: self.now + SignedDuration::from_secs(late),
                until: self.now + SignedDuration::from_secs(60),
            });
            return;
        }
        if self.is_calm || !self.chance.is(20) {
            return;
        }
        let group = self.group();
        let set = self.chance.below(self.sets.len());
        let ordinal = self.chance.below(self.sets[set].replicas);
        let name = format!("zone-{set}-{ordinal}");
        let Some(pod) = group.sets[set].pods.iter().find(|pod| pod.name == name) else {
            return;
        };
        let request = budget::Request {
            namespace: "default".to_owned(),
            name,
            dry_run: false,
            asked: Asked::Eviction,
        };
        let pods = group.sets.iter().flat_map(|set| set.pods.clone()).collect();
        let verdict = budget::judge(
            &request,
            &budget::Facts {
                budgets: &known(),
                pod: Ok(pod.clone()),
                owner: Some(Ok(group.sets[set].clone())),
                sets: Ok(group.sets.clone()),
                pods: Ok(pods),
                in_flight: &self.record.in_flight,
                operations: self.record.operation.as_slice(),
                now: self.now,
            },
        );
        if let Some(record) = verdict.record {
            let read = self.version;
            self.eviction = Some(Eviction {
                read,
                record: *record,
            });
        }
    }

    /// More replicas at once, or one step of a review of fewer.
    pub fn autoscale(&mut self) {
        match self.downscale.take() {
            Some(downscale) if self.now.duration_since(downscale.began) < TIMEOUT => self.review(downscale),
            // The API server has given it up.
            Some(_) => {}
            None if self.is_calm || !self.chance.is(20) => {}
            None => {
                let index = self.chance.below(self.sets.len());
                let grows = self.chance.is(40);
                let set = &mut self.sets[index];
                if grows && set.replicas < set.pods.len() {
                    set.replicas += 1;
                    set.generation += 1;
                } else if set.replicas > 1 {
                    self.begin(index);
                }
            }
        }
    }

    fn begin(&mut self, index: usize) {
        self.reviews += 1;
        let set = &self.sets[index];
        let (generation, to) = (set.generation, set.replicas - 1);
        let object = |replicas: usize| {
            json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet",
                "metadata": {
                    "name": format!("zone-{index}"), "uid": format!("uid-zone-{index}"), "generation": generation,
                    "labels": labels(), "annotations": self.group().sets[index].annotations,
                },
                "spec": {"replicas": replicas, "serviceName": GROUP},
            })
        };
        let request = Request {
            uid: format!("review-{}", self.reviews),
            resource: "statefulsets".to_owned(),
            name: format!("zone-{index}"),
            namespace: "default".to_owned(),
            operation: "UPDATE".to_owned(),
            object: Some(object(to)),
            old_object: Some(object(set.replicas)),
            ..Request::default()
        };
        let mut webhook = Prepare::new(request, settings(), false);
        let step = webhook.advance(Fact::Begin, self.now);
        self.downscale = Some(Downscale {
            webhook,
            step,
            set: index,
            generation,
            to,
            began: self.now,
        });
    }

    fn review(&mut self, mut downscale: Downscale) {
        let fact = match downscale.step.clone() {
            Step::Answer(response) => {
                // Now and then the API server refuses it for another reason.
                if response.allowed && !self.chance.is(20) {
                    let late = i64::try_from(self.chance.below(20)).unwrap();
                    self.changes.push(Change {
                        set: downscale.set,
                        generation: downscale.generation,
                        to: downscale.to,
                        began: downscale.began,
                        due: self.now + SignedDuration::from_secs(late),
                        until: downscale.began + TIMEOUT,
                    });
                }
                return;
            }
            Step::Read(Read::Zones { .. }) => Fact::Zones(Box::new(self.zones())),
            Step::Read(Read::Parent { .. }) => panic!("the object is the set"),
            Step::Ask(asks) => Fact::Answers(asks.iter().map(|ask| self.ask(ask)).collect()),
            Step::Write(write) if write.version == Some(self.version.to_string()) => {
                self.record = write.status;
                self.version += 1;
                Fact::Written(Ok(self.version.to_string()))
            }
            Step::Write(_) => Fact::Written(Err(WriteError::Conflict)),
        };
        downscale.step = downscale.webhook.advance(fact, self.now);
        self.downscale = Some(downscale);
    }

    fn zones(&self) -> Zones {
        let group = self.group();
        Zones {
            pods: Ok(group.sets.iter().flat_map(|set| set.pods.clone()).collect()),
            sets: Ok(group.sets),
            tracker: Ok(None),
            record: Ok(Some(Record {
                version: self.version.to_string(),
                status: self.record.clone(),
            })),
        }
    }

    /// An allowed change arrives: only prepared pods go, and no zone soon after another one.
    pub fn change(&mut self, seed: u64) {
        let now = self.now;
        let Some(at) = self.changes.iter().position(|change| change.due <= now) else {
            return;
        };
        let Change {
            set: index,
            generation,
            to,
            began,
            until,
            ..
        } = self.changes.swap_remove(at);
        if until < now || self.sets[index].generation != generation {
            return;
        }
        self.history.push(format!("zone-{index} is scaled down to {to}"));
        for (other, set) in self.sets.iter().enumerate().filter(|(other, _)| *other != index) {
            let apart = set.scaled_down.is_none_or(|at| now.duration_since(at) >= APART);
            assert!(apart, "seed {seed}: zone-{index} soon after zone-{other}");
        }
        let set = &mut self.sets[index];
        (set.replicas, set.generation, set.scaled_down) = (to, set.generation + 1, Some(now));
        for (ordinal, pod) in set.pods.iter_mut().enumerate().skip(to) {
            let Some(pod) = pod else { continue };
            // One that was started after the review began had nothing to hand over then (R12).
            let has_something =
                !matches!(pod.state, State::Starting | State::Terminating) && pod.started < began;
            assert!(
                !has_something || pod.prepared,
                "seed {seed}: zone-{index}-{ordinal} was not prepared\n{}",
                self.history[self.history.len().saturating_sub(20)..].join("\n")
            );
            set.ours[ordinal] = pod.state == State::Ready || set.ours[ordinal];
            pod.state = State::Terminating;
        }
        self.check_disturbed(seed, index);
    }
}

/// One pod of a zone at a time.
fn known() -> Known {
    let budget: Value = json!({
        "apiVersion": "rollout-operator.grafana.com/v1", "kind": "ZoneAwarePodDisruptionBudget",
        "metadata": {"name": GROUP, "generation": 1},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {}}},
    });
    let mut known = Known::default();
    known.put(&budget);
    known
}
