//! Promise: in all histories of two zones with two pods each, two leaders that are killed at any time and deletes that arrive at any time, never two
//! zones are disturbed by us, nothing is deleted that is not on record, and what comes to rest is rolled out. Every state is walked.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests: a failed expectation is meant to end the test"
)]

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_api::{
    Duration,
    zonerollout::{ZoneRolloutSpec, ZoneRolloutStatus},
};
use muster_zones::{
    decide::{Action as Do, decide},
    model::{Container, Group, Owner, Pod, Set, SetStatus},
    roll::Budget,
    scale::{Facts, Settings},
};
use stateright::{Checker, Model, Property};

/// How often a pod fails by itself in a history.
const FAILURES: u8 = 1;
/// How often a leader is killed in a history.
const KILLS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Ready,
    Failing,
    Terminating,
    Missing,
    Starting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    phase: Phase,
    is_new: bool,
    /// We made it unavailable.
    ours: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Plan {
    /// Another one wrote since it was read.
    is_stale: bool,
    status: String,
    delete: BTreeSet<String>,
    is_written: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    slots: [[Slot; 2]; 2],
    record: String,
    plans: [Option<Plan>; 2],
    sent: BTreeSet<String>,
    failures: u8,
    kills: u8,
    /// A delete was sent that was not on record.
    is_unrecorded: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Decide(usize),
    Write(usize),
    Send(usize),
    Kill(usize),
    Arrive(String),
    Move(usize, usize),
    Fail(usize, usize),
}

struct Zones;

impl Budget for Zones {
    fn counts_by_partition(&mut self, _: &Pod) -> Result<bool, String> {
        Ok(false)
    }

    fn allows(&mut self, _: &Pod, _: u32) -> Result<(), String> {
        Ok(())
    }
}

fn now() -> Timestamp {
    "2026-11-26T12:00:00Z".parse().unwrap()
}

fn uid(zone: usize, ordinal: usize, slot: Slot) -> String {
    format!("{zone}-{ordinal}-{}", slot.is_new)
}

fn row(zone: usize, ordinal: usize, slot: Slot) -> Option<Pod> {
    if slot.phase == Phase::Missing {
        return None;
    }
    let is_up = matches!(slot.phase, Phase::Ready | Phase::Terminating);
    let revision = if slot.is_new { "new" } else { "old" };
    Some(Pod {
        name: format!("zone-{zone}-{ordinal}"),
        uid: uid(zone, ordinal, slot),
        labels: [("controller-revision-hash".to_owned(), revision.to_owned())].into(),
        controller: Some(Owner {
            kind: "StatefulSet".to_owned(),
            name: format!("zone-{zone}"),
            uid: format!("uid-{zone}"),
            controller: true,
        }),
        phase: if slot.phase == Phase::Starting {
            "Pending"
        } else {
            "Running"
        }
        .to_owned(),
        terminating: slot.phase == Phase::Terminating,
        containers: vec![Container {
            name: "main".to_owned(),
            ready: is_up,
            running: slot.phase != Phase::Starting,
            ..Container::default()
        }],
        ..Pod::default()
    })
}

impl State {
    fn group(&self) -> Group {
        let all = (0..2).flat_map(|zone| (0..2).map(move |ordinal| (zone, ordinal)));
        let pods: Vec<Pod> = all
            .filter_map(|(zone, ordinal)| row(zone, ordinal, self.slots[zone][ordinal]))
            .collect();
        let set = |zone: usize| {
            let slots = self.slots[zone];
            let count = |is: &dyn Fn(&&Slot) -> bool| u32::try_from(slots.iter().filter(is).count()).unwrap();
            Set {
                name: format!("zone-{zone}"),
                uid: format!("uid-{zone}"),
                generation: 2,
                replicas: Some(2),
                strategy: "OnDelete".to_owned(),
                status: SetStatus {
                    observed_generation: 2,
                    replicas: count(&|slot| slot.phase != Phase::Missing),
                    ready_replicas: count(&|slot| slot.phase == Phase::Ready),
                    updated_replicas: count(&|slot| slot.is_new),
                    current_revision: "old".to_owned(),
                    update_revision: "new".to_owned(),
                },
                ..Set::default()
            }
        };
        let spec = ZoneRolloutSpec {
            // Time stands still here: `rolling` has the deadlines.
            progress_deadline: Some(Duration::from_hours(24)),
            ..ZoneRolloutSpec::default()
        };
        let status: ZoneRolloutStatus = serde_json::from_str(&self.record).unwrap();
        Group::new("db", [set(0), set(1)], &pods).with(spec, status)
    }

    fn decide(&mut self, leader: usize) -> Option<()> {
        let group = self.group();
        let decision = decide(&group, &Facts::default(), &Settings::default(), &mut Zones, now());
        // Words change with every pod, and decide nothing.
        let status = serde_json::to_string(&ZoneRolloutStatus {
            reasons: Vec::new(),
            progress: None,
            ..decision.status.clone()
        });
        let status = status.unwrap();
        let delete = decision.actions.iter().filter_map(|action| match action {
            Do::Delete(delete) => Some(delete.uid.clone()),
            Do::Scale(_) | Do::Record(_) => None,
        });
        let delete: BTreeSet<String> = delete.collect();
        if status == self.record && delete.is_subset(&self.sent) {
            return None;
        }
        self.plans[leader] = Some(Plan {
            is_stale: false,
            status,
            delete,
            is_written: false,
        });
        Some(())
    }

    fn write(&mut self, leader: usize) {
        let Some(mut plan) = self.plans[leader].take() else {
            return;
        };
        if plan.is_stale {
            return;
        }
        if self.record != plan.status {
            self.record.clone_from(&plan.status);
            if let Some(other) = &mut self.plans[1 - leader] {
                other.is_stale = true;
            }
        }
        plan.is_written = true;
        self.plans[leader] = (!plan.delete.is_empty()).then_some(plan);
    }

    fn send(&mut self, leader: usize) {
        let Some(plan) = self.plans[leader].take() else {
            return;
        };
        for uid in plan.delete {
            let entry = format!("\"uid\":\"{uid}\"");
            // A deposed leader sends late: it was on record when it wrote.
            self.is_unrecorded |= !plan.status.contains(&entry);
            self.sent.insert(uid);
        }
    }

    fn arrive(&mut self, sent: &str) {
        self.sent.remove(sent);
        for zone in 0..2 {
            for ordinal in 0..2 {
                let slot = &mut self.slots[zone][ordinal];
                let is_it = uid(zone, ordinal, *slot) == sent && slot.phase != Phase::Missing;
                if is_it && slot.phase != Phase::Terminating {
                    slot.ours |= slot.phase == Phase::Ready;
                    slot.phase = Phase::Terminating;
                }
            }
        }
    }

    /// The cluster goes on with a pod.
    fn go_on(&mut self, zone: usize, ordinal: usize) -> Option<()> {
        let slot = &mut self.slots[zone][ordinal];
        let ready = Slot {
            phase: Phase::Ready,
            ours: false,
            ..*slot
        };
        *slot = match slot.phase {
            Phase::Terminating => Slot {
                phase: Phase::Missing,
                ..*slot
            },
            Phase::Missing => Slot {
                phase: Phase::Starting,
                is_new: true,
                ..*slot
            },
            Phase::Starting | Phase::Failing => ready,
            Phase::Ready => return None,
        };
        Some(())
    }
}

impl Model for Zones {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let slot = Slot {
            phase: Phase::Ready,
            is_new: false,
            ours: false,
        };
        let record = serde_json::to_string(&ZoneRolloutStatus::default()).unwrap();
        vec![State {
            slots: [[slot; 2]; 2],
            record,
            plans: [None, None],
            sent: BTreeSet::new(),
            failures: 0,
            kills: 0,
            is_unrecorded: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for leader in 0..2 {
            match &state.plans[leader] {
                None => actions.push(Action::Decide(leader)),
                Some(plan) => {
                    actions.push(if plan.is_written {
                        Action::Send(leader)
                    } else {
                        Action::Write(leader)
                    });
                    if state.kills < KILLS {
                        actions.push(Action::Kill(leader));
                    }
                }
            }
        }
        actions.extend(state.sent.iter().cloned().map(Action::Arrive));
        for zone in 0..2 {
            for ordinal in 0..2 {
                actions.push(Action::Move(zone, ordinal));
                if state.failures < FAILURES && state.slots[zone][ordinal].phase == Phase::Ready {
                    actions.push(Action::Fail(zone, ordinal));
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Decide(leader) => state.decide(leader)?,
            Action::Write(leader) => state.write(leader),
            Action::Send(leader) => state.send(leader),
            Action::Kill(leader) => {
                state.kills += 1;
                state.plans[leader] = None;
            }
            Action::Arrive(uid) => state.arrive(&uid),
            Action::Move(zone, ordinal) => state.go_on(zone, ordinal)?,
            Action::Fail(zone, ordinal) => {
                state.failures += 1;
                state.slots[zone][ordinal].phase = Phase::Failing;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "one zone at most, and one pod of it, is disturbed by us",
                |_, state: &State| state.slots.iter().flatten().filter(|slot| slot.ours).count() <= 1,
            ),
            Property::always("what is deleted is on record", |_, state: &State| {
                !state.is_unrecorded
            }),
            Property::always("what comes to rest is rolled out", |model, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let goes_on = |action| model.next_state(state, action).is_some();
                let done = |slot: &Slot| slot.is_new && slot.phase == Phase::Ready;
                state.slots.iter().flatten().all(done) || actions.into_iter().any(goes_on)
            }),
            Property::sometimes("it is rolled out", |_, state: &State| {
                let done = |slot: &Slot| slot.is_new && slot.phase == Phase::Ready;
                state.slots.iter().flatten().all(done)
            }),
        ]
    }
}

#[test]
fn holds_in_every_state() {
    let checker = Zones.checker().threads(2).spawn_bfs().join();
    println!(
        "{} states, {} of them once",
        checker.state_count(),
        checker.unique_state_count()
    );
    checker.assert_properties();
}
