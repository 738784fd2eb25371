//! Promise: over random histories with crashes of leaders, late deletes, statuses that lag, evictions and an autoscaler, never two zones are
//! disturbed by us, never more pods of a zone than may be, only prepared pods are scaled away and zone after zone, and a good revision gets
//! everywhere.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: a failed expectation is meant to end the test"
)]

mod requests;

use jiff::{SignedDuration, Timestamp};
use muster_api::{
    Duration,
    labels::label::ROLLOUT_GROUP,
    zonerollout::{ZoneRolloutSpec, ZoneRolloutStatus},
};
use muster_zones::{
    decide::{Action, Decision, decide},
    model::{Container, Group, Owner, Pod, Set, SetStatus, annotations},
    roll::Budget,
    scale::{
        Facts, Settings, preparation,
        times::{MIN_TIME, all_now},
    },
};

use requests::{Change, Downscale, Eviction};

const GROUP: &str = "db";
/// How long a review may take here; each of its steps takes some seconds.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(300);
/// What has to be between downscales of two zones.
const APART: SignedDuration = SignedDuration::from_secs(120);

/// Numbers by chance, the same for each seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }

    fn is(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }
}

/// A budget that refuses one question of five.
struct Sometimes(Chance);

impl Budget for Sometimes {
    fn counts_by_partition(&mut self, _: &Pod) -> Result<bool, String> {
        Ok(false)
    }

    fn allows(&mut self, _: &Pod, _: u32) -> Result<(), String> {
        if self.0.is(20) {
            return Err("another zone is short of a pod".to_owned());
        }
        Ok(())
    }
}

/// Revisions are numbers; odd ones never come up.
fn is_bad(revision: u32) -> bool {
    revision % 2 == 1
}

#[derive(Clone, PartialEq)]
enum State {
    Starting,
    Ready,
    Crashing,
    /// A probe fails; it may recover.
    Failing,
    Terminating,
}

#[derive(Clone)]
struct SimPod {
    uid: u32,
    revision: u32,
    state: State,
    /// It was available when we deleted it.
    ours: bool,
    /// It was asked to prepare to leave, and not to forget that since.
    prepared: bool,
    /// Since when its container has run.
    started: Timestamp,
}

struct SimSet {
    replicas: usize,
    /// When it was scaled down last.
    scaled_down: Option<Timestamp>,
    limit: usize,
    template: u32,
    generation: i64,
    pods: Vec<Option<SimPod>>,
    /// By ordinal: whether we made that pod unavailable.
    ours: Vec<bool>,
    status: SetStatus,
}

/// A leader that has decided and not done everything.
struct Leader {
    written: bool,
    read: u64,
    decision: Option<Decision>,
}

/// A delete, or an eviction, that was sent.
struct Sent {
    set: usize,
    uid: u32,
    /// When it can arrive at the earliest.
    due: Timestamp,
    /// When the API server gives it up: an eviction is answered within its request.
    until: Timestamp,
}

struct World {
    chance: Chance,
    sets: Vec<SimSet>,
    record: ZoneRolloutStatus,
    version: u64,
    leaders: [Leader; 2],
    /// Deletes and evictions that were sent and did not arrive.
    sent: Vec<Sent>,
    eviction: Option<Eviction>,
    downscale: Option<Downscale>,
    /// Changes of replicas that were allowed and did not arrive.
    changes: Vec<Change>,
    reviews: u32,
    /// Nothing is evicted or scaled any more.
    is_calm: bool,
    /// Until when the network delays what is sent by minutes.
    outage: Timestamp,
    now: Timestamp,
    next_uid: u32,
    history: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let count = 1 + chance.below(5);
        let most = if chance.is(5) { 20 } else { 5 };
        let mut next_uid = 1;
        let sets = (0..count)
            .map(|_| {
                let replicas = 1 + chance.below(most);
                let pods = (0..replicas).map(|_| {
                    next_uid += 1;
                    Some(SimPod {
                        uid: next_uid,
                        revision: 0,
                        state: State::Ready,
                        ours: false,
                        prepared: false,
                        started: Timestamp::MIN,
                    })
                });
                // Room to grow.
                let pods = pods.chain([None, None]);
                SimSet {
                    replicas,
                    scaled_down: None,
                    limit: 1 + chance.below(2),
                    template: 0,
                    generation: 1,
                    pods: pods.collect(),
                    ours: vec![false; replicas + 2],
                    status: SetStatus::default(),
                }
            })
            .collect();
        let leader = || Leader {
            written: false,
            read: 0,
            decision: None,
        };
        let mut world = Self {
            chance,
            sets,
            record: ZoneRolloutStatus::default(),
            version: 0,
            leaders: [leader(), leader()],
            sent: Vec::new(),
            eviction: None,
            downscale: None,
            changes: Vec::new(),
            reviews: 0,
            is_calm: false,
            outage: Timestamp::MIN,
            now: "2026-11-26T12:00:00Z".parse().unwrap(),
            next_uid,
            history: Vec::new(),
        };
        for set in 0..world.sets.len() {
            world.report(set);
        }
        // As a ZoneRollout begins; the first downscale waits.
        let began = world.now - APART;
        world.record.last_downscale = all_now(&world.group().sets, began);
        world
    }

    /// The StatefulSet controller writes its status.
    fn report(&mut self, index: usize) {
        let set = &mut self.sets[index];
        let pods = set.pods.iter().flatten();
        let count =
            |is: &dyn Fn(&SimPod) -> bool| u32::try_from(pods.clone().filter(|pod| is(pod)).count()).unwrap();
        set.status = SetStatus {
            observed_generation: set.generation,
            replicas: count(&|_| true),
            ready_replicas: count(&|pod| pod.state == State::Ready),
            updated_replicas: count(&|pod| pod.revision == set.template),
            current_revision: "r0".to_owned(),
            update_revision: format!("r{}", set.template),
        };
    }

    fn name(index: usize) -> String {
        format!("zone-{index}")
    }

    fn group(&self) -> Group {
        let mut pods = Vec::new();
        let mut sets = Vec::new();
        for (index, set) in self.sets.iter().enumerate() {
            let name = Self::name(index);
            for (ordinal, pod) in set.pods.iter().enumerate() {
                pods.extend(pod.as_ref().map(|pod| row(&name, ordinal, pod)));
            }
            sets.push(Set {
                uid: format!("uid-{name}"),
                name,
                generation: set.generation,
                labels: labels(),
                annotations: [
                    (annotations::MAX_UNAVAILABLE, set.limit.to_string()),
                    (preparation::PATH, "prepare".to_owned()),
                    (preparation::PORT, "80".to_owned()),
                ]
                .map(|(key, value)| (key.to_owned(), value))
                .into(),
                service_name: GROUP.to_owned(),
                replicas: Some(u32::try_from(set.replicas).unwrap()),
                strategy: "OnDelete".to_owned(),
                status: set.status.clone(),
                ..Set::default()
            });
        }
        let spec = ZoneRolloutSpec {
            group: GROUP.to_owned(),
            // Here pods are slow by chance, and a revision that was condemned by chance would stop for good; `rolling` has the deadline.
            progress_deadline: Some(Duration::from_hours(24)),
            ..ZoneRolloutSpec::default()
        };
        Group::new(GROUP, sets, &pods).with(spec, self.record.clone())
    }

    /// One step of a leader: it reads and decides, or writes its record, or sends what it decided; now and then it is killed between.
    fn lead(&mut self, leader: usize) {
        if self.chance.is(5) {
            self.history.push(format!("leader {leader} is killed"));
            self.leaders[leader].decision = None;
            return;
        }
        let Some(decision) = self.leaders[leader].decision.take() else {
            let group = self.group();
            let mut budget = Sometimes(Chance(self.chance.next()));
            let mut facts = Facts::default();
            let decision = loop {
                let decision = decide(&group, &facts, &settings(), &mut budget, self.now);
                if decision.ask.is_empty() {
                    break decision;
                }
                for ask in decision.ask {
                    let answer = self.ask(&ask);
                    facts.answers.insert(ask, answer);
                }
            };
            self.check(&group, &decision);
            self.leaders[leader] = Leader {
                written: false,
                read: self.version,
                decision: Some(decision),
            };
            return;
        };
        if !self.leaders[leader].written {
            if self.leaders[leader].read == self.version {
                if self.record != decision.status {
                    self.record = decision.status.clone();
                    self.version += 1;
                }
                self.leaders[leader] = Leader {
                    written: true,
                    read: self.version,
                    decision: Some(decision),
                };
            }
            return;
        }
        for action in decision.actions {
            if let Action::Delete(delete) = action {
                let set: usize = delete.set.trim_start_matches("zone-").parse().unwrap();
                self.history.push(format!(
                    "leader {leader} sends delete of {} {}",
                    delete.pod, delete.uid
                ));
                let late = if self.now < self.outage {
                    150 + self.chance.below(150)
                } else {
                    0
                };
                let due = self.now + SignedDuration::from_secs(i64::try_from(late).unwrap());
                self.sent.push(Sent {
                    set,
                    uid: delete.uid.parse().unwrap(),
                    due,
                    until: Timestamp::MAX,
                });
            }
        }
    }

    /// Nothing available is deleted while a pod of another zone is unavailable by what was read, and everything that is deleted is on record.
    fn check(&self, group: &Group, decision: &Decision) {
        for action in &decision.actions {
            let Action::Delete(delete) = action else {
                continue;
            };
            let on_record = decision
                .status
                .in_flight
                .iter()
                .any(|entry| entry.uid == delete.uid);
            assert!(on_record, "{delete:?} is not on record");
            let pods = group.sets.iter().flat_map(|set| &set.pods);
            let pod = pods.into_iter().find(|pod| pod.uid == delete.uid);
            let others = group.sets.iter().filter(|set| set.name != delete.set);
            let unavailable: Vec<_> = others.flat_map(|set| set.unavailable(|_| false)).collect();
            assert!(
                unavailable.is_empty() || pod.is_none_or(|pod| !pod.is_available()),
                "{delete:?} while {unavailable:?}\n{}",
                self.history[self.history.len().saturating_sub(20)..].join("\n")
            );
        }
    }

    /// A delete arrives: the one moment at which we disturb anything.
    fn arrive(&mut self, seed: u64) {
        let due: Vec<usize> = (0..self.sent.len())
            .filter(|at| self.sent[*at].due <= self.now)
            .collect();
        if due.is_empty() {
            return;
        }
        let at = due[self.chance.below(due.len())];
        let Sent {
            set: index,
            uid,
            until,
            ..
        } = self.sent.swap_remove(at);
        if until < self.now {
            return;
        }
        let set = &mut self.sets[index];
        let ordinal = set
            .pods
            .iter()
            .position(|pod| pod.as_ref().is_some_and(|pod| pod.uid == uid));
        let Some(ordinal) = ordinal else { return };
        let pod = set.pods[ordinal].as_mut().unwrap();
        if pod.state == State::Terminating {
            return;
        }
        self.history
            .push(format!("delete of zone-{index}-{ordinal} {uid} arrives"));
        let disturbs = pod.state == State::Ready;
        pod.state = State::Terminating;
        if disturbs {
            set.ours[ordinal] = true;
            pod.ours = true;
        }
        self.check_disturbed(seed, index);
    }

    /// One zone at most is disturbed by us, and of it no more pods than may be: rolled, evicted, or scaled away.
    fn check_disturbed(&self, seed: u64, index: usize) {
        let tail = || self.history[self.history.len().saturating_sub(40)..].join("\n");
        let disturbed: Vec<usize> = (0..self.sets.len())
            .filter(|set| self.sets[*set].ours.contains(&true))
            .collect();
        assert!(
            disturbed.len() <= 1,
            "seed {seed}: zones {disturbed:?} are disturbed\n{}",
            tail()
        );
        let set = &self.sets[index];
        // What is scaled away goes at once.
        let ours = set.ours.iter().take(set.replicas).filter(|ours| **ours).count();
        assert!(
            ours <= set.limit,
            "seed {seed}: {ours} of zone-{index}\n{}",
            tail()
        );
    }

    /// Something of the cluster moves: a pod, or a status.
    fn cluster(&mut self) {
        let index = self.chance.below(self.sets.len());
        if self.chance.is(30) {
            self.report(index);
            return;
        }
        let ordinal = self.chance.below(self.sets[index].pods.len());
        self.next_uid += 1;
        // Of many pods some would fail at any time, for good.
        let is_large = self.sets.iter().map(|set| set.replicas).sum::<usize>() > 25;
        let fails = self.chance.is(3) && !(is_large && self.is_calm);
        let uid = self.next_uid;
        let set = &mut self.sets[index];
        match &mut set.pods[ordinal] {
            None if ordinal < set.replicas => {
                let revision = set.template;
                let state = State::Starting;
                set.pods[ordinal] = Some(SimPod {
                    uid,
                    revision,
                    state,
                    ours: false,
                    prepared: false,
                    started: Timestamp::MAX,
                });
            }
            None => {}
            Some(pod) => match pod.state {
                State::Terminating => {
                    set.pods[ordinal] = None;
                    if ordinal >= set.replicas {
                        set.ours[ordinal] = false;
                    }
                }
                // What is beyond the replicas goes.
                _ if ordinal >= set.replicas => pod.state = State::Terminating,
                State::Starting if is_bad(pod.revision) => {
                    pod.started = self.now;
                    pod.state = State::Crashing;
                }
                State::Starting | State::Failing => {
                    pod.started = pod.started.min(self.now);
                    pod.state = State::Ready;
                    set.ours[ordinal] = false;
                }
                State::Ready if fails => pod.state = State::Failing,
                State::Ready | State::Crashing => {}
            },
        }
    }

    /// People change the template of all sets.
    fn release(&mut self, revision: u32) {
        self.history.push(format!("release r{revision}"));
        for set in &mut self.sets {
            if set.template != revision {
                set.template = revision;
                set.generation += 1;
            }
        }
    }

    fn step(&mut self, seed: u64) {
        self.now += SignedDuration::from_secs(1);
        if self.chance.next().is_multiple_of(400) {
            self.outage = self.now + SignedDuration::from_secs(150);
        }
        match self.chance.below(13) {
            0..=2 => {
                let leader = self.chance.below(2);
                self.lead(leader);
            }
            3 => self.arrive(seed),
            4 => self.evict(),
            5 => self.autoscale(),
            6 => self.change(seed),
            _ => self.cluster(),
        }
    }

    fn is_rolled_out(&self) -> bool {
        self.sets.iter().all(|set| {
            let at = |pod: &Option<SimPod>| {
                pod.as_ref()
                    .is_some_and(|pod| pod.revision == set.template && pod.state == State::Ready)
            };
            set.pods.iter().take(set.replicas).all(at)
                && set.pods.iter().skip(set.replicas).all(Option::is_none)
        })
    }
}

fn row(set: &str, ordinal: usize, pod: &SimPod) -> Pod {
    let waiting = (pod.state == State::Crashing).then(|| ("CrashLoopBackOff".to_owned(), String::new()));
    Pod {
        name: format!("{set}-{ordinal}"),
        uid: pod.uid.to_string(),
        labels: [(
            "controller-revision-hash".to_owned(),
            format!("r{}", pod.revision),
        )]
        .into(),
        controller: Some(owner(set)),
        phase: if pod.state == State::Starting {
            "Pending"
        } else {
            "Running"
        }
        .to_owned(),
        terminating: pod.state == State::Terminating,
        containers: vec![Container {
            name: "main".to_owned(),
            ready: pod.state == State::Ready,
            running: matches!(pod.state, State::Ready | State::Failing),
            waiting,
            was_started: pod.state != State::Starting,
        }],
        ..Pod::default()
    }
}

fn owner(set: &str) -> Owner {
    Owner {
        kind: "StatefulSet".to_owned(),
        name: set.to_owned(),
        uid: format!("uid-{set}"),
        controller: true,
    }
}

fn labels() -> std::collections::BTreeMap<String, String> {
    [
        (ROLLOUT_GROUP, GROUP),
        (preparation::PREPARE, "true"),
        (MIN_TIME, "2m"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn settings() -> Settings {
    Settings {
        namespace: "default".to_owned(),
        cluster_domain: "cluster.local.".to_owned(),
        timeout: TIMEOUT,
    }
}

/// A few histories, or as many as `MUSTER_RUNS` says from `MUSTER_SEED` on: `cargo xtask simulate --zones`.
#[test]
fn never_two_zones_and_never_more_than_may_be() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("MUSTER_SEED").unwrap_or(0);
    let runs = number("MUSTER_RUNS").unwrap_or(300);
    let (mut evicted, mut scaled) = (0, 0);
    for seed in first..first + runs {
        let mut world = World::new(seed);
        for step in 0..600 {
            if step % 150 == 10 {
                let revision = u32::try_from(world.chance.below(4)).unwrap();
                world.release(revision);
            }
            world.step(seed);
        }
        // Then a good revision, and time.
        world.release(4);
        world.is_calm = true;
        let mut steps = 0;
        while !world.is_rolled_out() {
            world.step(seed);
            steps += 1;
            assert!(
                steps < 90_000,
                "seed {seed}: r4 does not get everywhere: {:#?}\n{}",
                world.record,
                world.history[world.history.len().saturating_sub(20)..].join("\n")
            );
        }
        let count = |what: &str| world.history.iter().filter(|line| line.contains(what)).count();
        evicted += count("is evicted");
        scaled += count("is scaled down");
    }
    println!("{runs} histories from seed {first}: {evicted} evictions, {scaled} downscales");
    assert!(
        evicted > 0 && (scaled > 0 || runs < 100),
        "something was asked for, and came about"
    );
}
