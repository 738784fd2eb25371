//! The leader: reads, decides, writes the memory by compare-and-swap, and only then the assignments.

use std::convert::Infallible;

use muster_driver::{AssignmentWrite, Facts, Recalled, Rules, Tested, Verdicts};
use muster_rollout::{
    ControlCommand, Decision, GateResult, Millis, Reading, RunState, Spec, Stage, StageId, Step, Token, Unit,
    Why,
};
use rand::RngExt as _;

use super::{Event, GateId, PendingWrite, Read, Simulation};
use crate::laws::{Case, Verdict};
use crate::{FleetEvent, SpecChange, Witness};

/// Number of views kept for decisions on an old view.
const OLD: usize = 4;

impl<W: Witness> Simulation<'_, W> {
    pub(super) fn decide(&mut self) -> Verdict {
        self.decide_at = None;
        let read = self.read();
        let slow = self.surroundings.slow;
        if self.chance(slow) {
            // Another leader may be faster.
            self.change();
            let at = self.now.plus(self.carry()).plus(self.carry());
            self.queue.push(at, Event::Commit(Box::new(read)));
            return Ok(());
        }
        self.commit(&read)
    }

    fn read(&mut self) -> Read {
        let newest = self.view();
        let stale = self.surroundings.stale;
        let read = Read {
            version: self.version,
            spec: self.spec.clone(),
            memory: self.memory.clone(),
            view: newest,
            number: self.views,
            now: self.now,
        };
        if self.old.is_empty() || !self.chance(stale) {
            self.old.push_back((self.views, read.view.clone()));
            if self.old.len() > OLD {
                self.old.pop_front();
            }
            return read;
        }
        let place = self.random.random_range(0..self.old.len());
        let Some((number, view)) = self.old.get(place).cloned() else {
            return read;
        };
        self.change(); // it looks again
        // The spec is read with the memory; only assignments, reports and eligibility may be outdated.
        let view = view.iter().map(|unit| with_desired(unit, &read.view)).collect();
        Read {
            spec: Spec {
                complete: false,
                ..read.spec
            },
            view,
            number,
            ..read
        }
    }

    pub(super) fn commit(&mut self, read: &Read) -> Verdict {
        if read.version != self.version {
            self.tally.overtaken += 1;
            self.change();
            return Ok(());
        }
        self.tally.decisions += 1;
        let rules = Rules {
            plan: self.decide,
            ..Rules::shipped()
        };
        let facts = Facts {
            spec: &read.spec,
            memory: &read.memory,
            units: &read.view,
            now: read.now,
        };
        let decided = muster_driver::decide(facts, &rules);
        let case = Case {
            decide: self.decide,
            spec: &read.spec,
            before: &read.memory,
            view: &read.view,
            decision: decided.decision(),
            now: read.now,
        };
        self.witness.decided(&case, read.number)?;
        if decided.decision().memory != self.memory {
            self.version += 1;
            self.memory = decided.decision().memory.clone();
        }
        let Ok(remembered) = decided.written(Ok::<(), Infallible>(()));
        for write in remembered.writes(read.view.as_slice()) {
            self.send(&write, read);
        }
        self.follow(remembered.decision());
        Ok(())
    }

    fn send(&mut self, write: &AssignmentWrite<Tested>, read: &Read) {
        let Some(unit) = case_unit(&read.view, &write.planned().unit) else {
            return;
        };
        let key = (unit.id.clone(), write.planned().token());
        let twice = self.surroundings.twice;
        if self.flying.contains_key(&key) && !self.chance(twice) {
            return; // it is on its way
        }
        *self.flying.entry(key).or_default() += 1;
        let loss = self.surroundings.lost;
        let flying = PendingWrite {
            unit: unit.id.clone(),
            write: *write.write(),
            writes: self.members.get(&unit.id).map_or(0, |member| member.writes),
            life: unit.incarnation,
            view: read.number,
            lost: self.chance(loss),
        };
        let at = self.now.plus(self.carry());
        self.queue.push(at, Event::Write(Box::new(flying)));
    }

    /// The other results of a decision.
    fn follow(&mut self, decision: &Decision) {
        self.held = None;
        for (_, why) in &decision.reasons {
            if let Why::WithdrawalHeld { acknowledge, .. } = why {
                self.held = Some(acknowledge.to_string());
            }
        }
        self.wait_for_approval(decision);
        for step in &decision.steps {
            match step {
                Step::Evaluate { gate } if self.gates.insert(*gate) => {
                    let at = self.now.plus(self.carry());
                    self.queue.push(at, Event::Gate(*gate));
                }
                Step::Conclude { verdict, .. } => match verdict {
                    muster_rollout::Verdict::Good => self.tally.good += 1,
                    muster_rollout::Verdict::Bad => self.tally.bad += 1,
                },
                _ => {}
            }
        }
        self.wake_at = decision.wake_at;
        match decision.wake_at {
            Some(at) if at > self.now => self.queue.push(at, Event::Wake(at)),
            Some(_) => self.change(),
            None => {}
        }
    }

    /// A user will approve the open stage, if it waits for an approval. Its last units may be ready, so no reason shows
    /// it.
    fn wait_for_approval(&mut self, decision: &Decision) {
        let (course, run) = (&decision.memory.course, decision.memory.run);
        let open = |stage: &&Stage| !course.passed.contains(&StageId::of(&stage.name));
        let stage = self.spec.stages.iter().find(open).filter(|stage| {
            let is_clear = course.clear_since.is_some();
            stage.approval && is_clear && !course.approved.contains(&StageId::of(&stage.name))
        });
        let run = run.filter(|run| run.state == RunState::Open);
        let (Some(after), Some(stage), Some(run)) = (self.surroundings.approval, stage, run) else {
            return;
        };
        if self.approving.insert((run.id, StageId::of(&stage.name))) {
            let approves = ControlCommand::Approve(run.target, stage.name.clone());
            let at = self.now.plus(after);
            self.plan_for(at, FleetEvent::Wish(SpecChange::Say(approves)));
        }
    }

    pub(super) fn reads_gate(&mut self, gate: GateId) {
        self.gates.remove(&gate);
        let holds = self.surroundings.holds;
        let outcome = match self.chance(holds) {
            true => GateResult::Pass,
            false if self.chance(50) => GateResult::Fail,
            false => GateResult::NoData,
        };
        self.spec.readings.retain(|reading| reading.gate != gate);
        let at = self.now;
        self.spec.readings.push(Reading { gate, at, outcome });
        self.version += 1;
        self.change();
    }

    /// W7, or there was no leader for a while. A write that is pending when the memory is lost would be unknown: there
    /// is none here.
    pub(super) fn lead_again(&mut self, gap: Millis, lost: bool) -> Verdict {
        self.leaderless = false;
        let read = self.read_fresh();
        let memory = if lost {
            self.flying.clear();
            self.queue.retain(|event| !matches!(event, Event::Write(_)));
            let (last_good, bad) = (read.memory.last_good, read.memory.bad.clone());
            let verdicts = Verdicts { last_good, bad };
            let memory = Recalled::Lost(verdicts)
                .believed(&read.view, read.now)
                .into_owned();
            for id in memory.in_flight.keys() {
                self.witness.is_adopted(id, read.number);
            }
            memory
        } else {
            let memory = &read.memory;
            Recalled::Kept { memory, gap }
                .believed(&read.view, read.now)
                .into_owned()
        };
        self.version += 1;
        self.memory = memory.clone();
        let version = self.version;
        self.commit(&Read {
            version,
            memory,
            ..read
        })
    }

    fn read_fresh(&self) -> Read {
        Read {
            version: self.version,
            spec: self.spec.clone(),
            memory: self.memory.clone(),
            view: self.view(),
            number: self.views,
            now: self.now,
        }
    }

    /// A write arrives: it is applied if the assignment is still as it was read.
    pub(super) fn arrive(&mut self, flying: &PendingWrite) -> Verdict {
        let PendingWrite {
            unit: id,
            write,
            writes,
            life,
            view,
            lost,
        } = flying;
        let token = write.change.token;
        self.land(&(id.clone(), token));
        self.change();
        if *lost {
            self.tally.lost += 1;
            return Ok(());
        }
        let Some(member) = self
            .members
            .get_mut(id)
            .filter(|member| member.incarnation == *life)
        else {
            return Ok(());
        };
        let appends = write.read.is_none() && member.writes != *writes;
        let row = write
            .arrive(member.assignment, &Rules::shipped())
            .filter(|_| !appends);
        let Some(row) = row else {
            self.tally.refused += 1;
            return Ok(());
        };
        self.tally.assignments += 1;
        member.writes += 1;
        member.assignment = Some(row);
        let picks = Event::Picks(id.clone(), *life, token);
        self.queue.push(self.now.plus(member.pace.pickup), picks);
        self.witness.wrote(id, Some(row.content), *view, self.now)
    }

    fn land(&mut self, key: &(muster_rollout::UnitId, Token)) {
        if let Some(count) = self.flying.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.flying.remove(key);
            }
        }
    }
}

fn case_unit<'a>(view: &'a [Unit], id: &muster_rollout::UnitId) -> Option<&'a Unit> {
    let at = view.binary_search_by(|unit| unit.id.cmp(id)).ok()?;
    view.get(at)
}

fn with_desired(unit: &Unit, newest: &[Unit]) -> Unit {
    let now = case_unit(newest, &unit.id).filter(|now| now.incarnation == unit.incarnation);
    Unit {
        desired: now.map_or(unit.desired, |now| now.desired),
        ..unit.clone()
    }
}
