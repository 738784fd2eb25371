//! Promise: in every reachable state of two zones with two pods each, with two leaders, late deletions, lost answers
//! and pods that fail on their own, muster disturbs at most one zone, only recorded pods are deleted, and a good
//! revision still reaches all pods.
//!
//! The model runs the shipped `decide` between the steps of a leader, and stateright explores it exhaustively. Time
//! does not advance: nothing here waits for it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Mutex,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::zonerollout::{InFlight, Operation, OperationKind, Why, ZoneRolloutSpec, ZoneRolloutStatus};
use muster_zones::{
    decide::{Action, decide},
    model::{Container, Group, Owner, Pod, Set, SetStatus},
    roll::Budget,
    scale::{Facts, Settings},
};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// A pod in one of four slots: the first two belong to zone 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    /// A pod at the old revision; counts how often it was in a crash loop.
    Old(Life, u8),
    Missing,
    New(Life),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Life {
    Starting,
    Ready,
    Failing,
    Crashing,
    Terminating,
}

type Pods = [At; 4];

/// The deletion of the old pod in a slot; bound to one of its crash loops, or unbound.
type Deletion = (usize, Option<u8>);

/// The recorded state that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Record {
    in_flight: BTreeSet<Deletion>,
    rolling: Option<usize>,
}

/// The pending decision of a leader: the record to write, and the deletions afterwards. A leader whose record is
/// outdated starts over: its write would be rejected.
type Leader = Option<Decided>;

/// The new record of a decision, and the deletions afterwards.
type Decided = (Record, Vec<Deletion>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    pods: Pods,
    record: Record,
    leaders: [Leader; 2],
    /// Deletions in flight. One may stay in flight forever: its leader was killed before it sent it, or it was lost.
    sent: BTreeSet<Deletion>,
    /// Pods that muster made unavailable and that have not come back.
    ours: [bool; 4],
    /// How often pods may still fail on their own.
    failures: u8,
    /// Whether something was deleted that was not recorded.
    off_record: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Happens {
    /// A leader reads the state and decides.
    Decides(usize),
    /// A leader writes its record, and sends the deletions.
    Writes(usize),
    Arrives(Deletion),
    /// A pod becomes ready, disappears, or is created.
    Moves(usize),
    Fails(usize, Life),
}

/// A deliberate bug of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// The leader deletes before it writes.
    DeletesFirst,
    /// The leader overwrites the record without compare-and-swap.
    WritesBlindly,
    /// The leader deletes pods that may have become ready in the meantime.
    AnyVersion,
}

struct World {
    wrong: Wrong,
    begin: Vec<State>,
    decided: Mutex<HashMap<(Pods, Record), Decided>>,
}

struct Allows;

impl Budget for Allows {
    fn counts_by_partition(&mut self, _: &Pod) -> Result<bool, String> {
        Ok(false)
    }

    fn allows(&mut self, _: &Pod, _: u32) -> Result<(), String> {
        Ok(())
    }
}

impl World {
    /// Initial state with all pods at the old revision: Ready, or with the first pod of each zone in a crash loop.
    fn new(wrong: Wrong, failures: u8) -> Self {
        let ready = At::Old(Life::Ready, 0);
        let crashing = At::Old(Life::Crashing, 1);
        let begin = [[ready; 4], [crashing, ready, crashing, ready]];
        let state = |pods| State {
            pods,
            record: Record::default(),
            leaders: [None, None],
            sent: BTreeSet::new(),
            ours: [false; 4],
            failures,
            off_record: false,
        };
        Self {
            wrong,
            begin: begin.map(state).to_vec(),
            decided: Mutex::default(),
        }
    }

    /// The shipped decision.
    fn decide(&self, pods: Pods, record: &Record) -> Decided {
        let key = (pods, record.clone());
        if let Some(decided) = self.decided.lock().unwrap().get(&key) {
            return decided.clone();
        }
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let spec = ZoneRolloutSpec {
            group: "db".to_owned(),
            ..ZoneRolloutSpec::default()
        };
        let status = status(record, now);
        let rows: Vec<Pod> = (0..4).filter_map(|at| pod(at, pods[at])).collect();
        let sets = [0, 1].map(|zone| set(zone, pods));
        let group = Group::new("db", sets, &rows).with(spec, status);
        let (facts, settings) = (Facts::default(), Settings::default());
        let decision = decide(&group, &facts, &settings, &mut Allows, now);
        let deletes = decision.actions.iter().filter_map(|action| match action {
            Action::Delete(delete) => {
                Some((index_of(&delete.uid), version(delete.resource_version.as_ref())))
            }
            Action::Record(_) | Action::Scale(_) => None,
        });
        let in_flight = decision.status.in_flight.iter();
        let after = Record {
            in_flight: in_flight
                .map(|entry| (index_of(&entry.uid), version(entry.resource_version.as_ref())))
                .collect(),
            rolling: decision
                .status
                .operation
                .map(|operation| index_of(&operation.set)),
        };
        let decided = (after, deletes.collect());
        self.decided.lock().unwrap().insert(key, decided.clone());
        decided
    }

    fn decides(&self, state: &mut State, at: usize) {
        let (after, mut deletes) = self.decide(state.pods, &state.record);
        if self.wrong == Wrong::AnyVersion {
            deletes = deletes.into_iter().map(|(place, _)| (place, None)).collect();
        }
        if self.wrong == Wrong::DeletesFirst {
            state.sent.extend(deletes.iter().copied());
        }
        state.leaders[at] = Some((after, deletes));
    }

    fn writes(&self, state: &mut State, at: usize) {
        let Some((after, deletes)) = state.leaders[at].take() else {
            return;
        };
        if state.record != after {
            state.record = after;
            if self.wrong != Wrong::WritesBlindly {
                state.leaders[1 - at] = None;
            }
        }
        state.sent.extend(deletes);
    }
}

/// A deletion arrives; the API server checks its preconditions against the current pod.
fn arrive(state: &mut State, deletion: Deletion) {
    state.sent.remove(&deletion);
    let (place, bound) = deletion;
    let At::Old(life, crashes) = state.pods[place] else {
        return;
    };
    let is_as_read = bound.is_none_or(|bound| life == Life::Crashing && bound == crashes);
    if life == Life::Terminating || !is_as_read {
        return;
    }
    let mut on_record = state.record.in_flight.iter();
    state.off_record |= !on_record.any(|(other, _)| *other == place);
    state.ours[place] |= life == Life::Ready;
    state.pods[place] = At::Old(Life::Terminating, crashes);
}

/// The state after a pod or its set has changed on its own; `None` if nothing changes.
fn moved(pod: At) -> Option<At> {
    Some(match pod {
        At::Old(Life::Terminating, _) => At::Missing,
        At::Missing => At::New(Life::Starting),
        At::Old(Life::Failing | Life::Crashing, crashes) => At::Old(Life::Ready, crashes),
        At::New(Life::Starting | Life::Failing) => At::New(Life::Ready),
        _ => return None,
    })
}

impl Model for World {
    type State = State;
    type Action = Happens;

    fn init_states(&self) -> Vec<State> {
        self.begin.clone()
    }

    fn actions(&self, state: &State, all: &mut Vec<Happens>) {
        for (at, leader) in state.leaders.iter().enumerate() {
            // Of two equivalent states, one is sufficient.
            if at == 1 && state.leaders[0] == *leader {
                continue;
            }
            all.push(if leader.is_some() {
                Happens::Writes(at)
            } else {
                Happens::Decides(at)
            });
        }
        all.extend(state.sent.iter().copied().map(Happens::Arrives));
        for place in 0..4 {
            all.push(Happens::Moves(place));
            if state.failures > 0 {
                all.extend([Life::Failing, Life::Crashing].map(|life| Happens::Fails(place, life)));
            }
        }
    }

    fn next_state(&self, before: &State, what: Happens) -> Option<State> {
        let mut state = before.clone();
        match what {
            Happens::Decides(at) => self.decides(&mut state, at),
            Happens::Writes(at) => self.writes(&mut state, at),
            Happens::Arrives(deletion) => arrive(&mut state, deletion),
            Happens::Moves(place) => {
                state.pods[place] = moved(state.pods[place])?;
                let is_back = matches!(state.pods[place], At::Old(Life::Ready, _) | At::New(Life::Ready));
                state.ours[place] &= !is_back;
            }
            Happens::Fails(place, life) => {
                state.pods[place] = match (state.pods[place], life) {
                    (At::Old(Life::Ready, crashes), Life::Crashing) => At::Old(life, crashes + 1),
                    (At::Old(Life::Ready, crashes), _) => At::Old(life, crashes),
                    (At::New(Life::Ready), Life::Failing) => At::New(life),
                    _ => return None,
                };
                state.failures -= 1;
            }
        }
        state.leaders.sort();
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one zone", |_, state: &State| {
                let [a, b, c, d] = state.ours;
                !((a || b) && (c || d))
            }),
            Property::always("one pod of a zone", |_, state: &State| {
                let [a, b, c, d] = state.ours;
                !(a && b || c && d)
            }),
            Property::always("on record", |_, state: &State| !state.off_record),
        ]
    }
}

fn status(record: &Record, now: Timestamp) -> ZoneRolloutStatus {
    let entry = |(place, bound): &Deletion| InFlight {
        pod: format!("zone-{}-{}", place / 2, place % 2),
        uid: format!("old-{place}"),
        set: format!("zone-{}", place / 2),
        resource_version: bound.map(|bound| format!("version-{bound}")),
        why: Why::Deletion,
        since: Time(now),
    };
    ZoneRolloutStatus {
        in_flight: record.in_flight.iter().map(entry).collect(),
        operation: record.rolling.map(|zone| Operation {
            kind: OperationKind::Rolling,
            set: format!("zone-{zone}"),
            set_uid: format!("uid-{zone}"),
            from: None,
            to: None,
            generation: None,
            admission_uids: Vec::new(),
            expires: None,
        }),
        ..ZoneRolloutStatus::default()
    }
}

/// The index at the end of a name.
fn index_of(name: &str) -> usize {
    name.rsplit_once('-').unwrap().1.parse().unwrap()
}

fn version(version: Option<&String>) -> Option<u8> {
    version.map(|version| u8::try_from(index_of(version)).unwrap())
}

fn set(zone: usize, pods: Pods) -> Set {
    let pods = &pods[2 * zone..2 * zone + 2];
    let count = |is: fn(&At) -> bool| u32::try_from(pods.iter().filter(|pod| is(pod)).count()).unwrap();
    Set {
        name: format!("zone-{zone}"),
        uid: format!("uid-{zone}"),
        replicas: Some(2),
        strategy: "OnDelete".to_owned(),
        status: SetStatus {
            replicas: count(|pod| *pod != At::Missing),
            ready_replicas: count(|pod| matches!(pod, At::Old(Life::Ready, _) | At::New(Life::Ready))),
            current_revision: "old".to_owned(),
            update_revision: "new".to_owned(),
            ..SetStatus::default()
        },
        ..Set::default()
    }
}

fn pod(place: usize, pod: At) -> Option<Pod> {
    let (revision, life, crashes) = match pod {
        At::Old(life, crashes) => ("old", life, crashes),
        At::Missing => return None,
        At::New(life) => ("new", life, 0),
    };
    let is_crashing = life == Life::Crashing;
    Some(Pod {
        name: format!("zone-{}-{}", place / 2, place % 2),
        uid: format!("{revision}-{place}"),
        stuck_version: is_crashing.then(|| format!("version-{crashes}")),
        labels: [("controller-revision-hash".to_owned(), revision.to_owned())].into(),
        controller: Some(Owner {
            kind: "StatefulSet".to_owned(),
            name: format!("zone-{}", place / 2),
            uid: format!("uid-{}", place / 2),
            controller: true,
        }),
        phase: "Running".to_owned(),
        terminating: life == Life::Terminating,
        containers: vec![Container {
            name: "main".to_owned(),
            ready: life == Life::Ready,
            running: !is_crashing,
            waiting: is_crashing.then(|| ("CrashLoopBackOff".to_owned(), String::new())),
            was_started: true,
        }],
        ..Pod::default()
    })
}

/// The first properties that were violated.
fn broken(wrong: Wrong) -> Vec<&'static str> {
    let checker = World::new(wrong, 1).checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::Any).spawn_bfs().join();
    println!("{wrong:?}: {} states", checker.unique_state_count());
    checker.discoveries().into_keys().collect()
}

#[test]
fn holds_in_every_state() {
    assert_eq!(broken(Wrong::Nothing), Vec::<&str>::new());
}

#[test]
fn each_mistake_is_found() {
    for wrong in [Wrong::DeletesFirst, Wrong::WritesBlindly, Wrong::AnyVersion] {
        assert_eq!(broken(wrong), ["on record"], "{wrong:?}");
    }
}

/// From each state there is a path on which the new revision reaches all pods and the record is empty: there is no
/// deadlock.
#[test]
fn a_good_revision_can_get_everywhere_from_every_state() {
    let world = World::new(Wrong::Nothing, 1);
    let mut states: HashMap<State, usize> = HashMap::new();
    let mut before: Vec<Vec<usize>> = Vec::new();
    let mut open: Vec<State> = world.init_states();
    let mut reaches: Vec<usize> = Vec::new();
    for state in &open {
        states.insert(state.clone(), before.len());
        before.push(Vec::new());
    }
    while let Some(state) = open.pop() {
        let from = states[&state];
        let is_everywhere = state.pods.iter().all(|pod| matches!(pod, At::New(Life::Ready)));
        if is_everywhere && state.record == Record::default() {
            reaches.push(from);
        }
        for next in world.next_states(&state) {
            let count = before.len();
            let to = *states.entry(next.clone()).or_insert(count);
            if to == count {
                before.push(Vec::new());
                open.push(next);
            }
            before[to].push(from);
        }
    }
    let mut can = vec![false; before.len()];
    while let Some(state) = reaches.pop() {
        if !std::mem::replace(&mut can[state], true) {
            reaches.extend(&before[state]);
        }
    }
    let stuck = states.iter().find(|(_, at)| !can[**at]);
    assert_eq!(stuck, None, "of {} states", can.len());
}
