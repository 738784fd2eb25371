//! Rule 10: stages are passed one after the other, and lower the limit.

use std::sync::Arc;

use super::{Pass, limit::count};
use crate::{
    Desired, Gate, GateCount, GateId, GateResult, Kind, Millis, Reading, Stage, StageId, StagePosition, Step,
    Unit, UnitId, Why,
};

/// Maximum number of units named in the reason of waiting units.
pub(super) const NAMED: usize = 3;

/// What the open stage waits for.
enum Lack {
    /// These units, which are not confirmed.
    Units(Arc<[UnitId]>),
    /// An approval.
    Approval,
    /// The end of its soak, at this time.
    Soak(Millis),
    /// This gate.
    Gate(usize),
}

/// The limits of stages that have one of their own.
pub(super) struct StageWindows {
    /// By stage index: how many more changes may start.
    room: Vec<Option<u32>>,
}

impl<'a> Pass<'a> {
    /// Passes all stages that are done. Only a complete read shows that one is.
    pub(super) fn pass_stages(&mut self) {
        if self.spec.stages.is_empty() || !self.spec.complete {
            return;
        }
        let known: Vec<StageId> = self.spec.stages.iter().map(Stage::id).collect();
        let course = &mut self.memory.course;
        for set in [&mut course.passed, &mut course.approved, &mut course.promoted] {
            set.retain(|stage| known.contains(stage));
        }
        while let Some((place, stage)) = self.open_stage() {
            self.update_course(place, stage);
            if self.lack(place, stage).is_some() {
                return;
            }
            let course = &mut self.memory.course;
            course.passed.insert(stage.id());
            course.clear_since = None;
            course.gates.clear();
        }
    }

    /// The stage that is passed next, during a run.
    pub(super) fn open_stage(&self) -> Option<(usize, &'a Stage)> {
        self.open_run()?;
        let passed = &self.memory.course.passed;
        let mut stages = self.spec.stages.iter().enumerate();
        stages.find(|(_, stage)| !passed.contains(&stage.id()))
    }

    /// Whether the unit's stage is open. A joining unit gets the last good revision without waiting, and a pinned unit
    /// its pin: stages apply to the target.
    pub(super) fn is_open(&self, unit: &Unit, kind: Kind) -> bool {
        let Some((open, _)) = self.open_stage().filter(|_| kind == Kind::Assign) else {
            return true;
        };
        match unit.place {
            _ if unit.pinned && !self.is_run_for(unit) => true,
            StagePosition::Stage(place) => usize::from(place) <= open,
            StagePosition::Last | StagePosition::Excluded => false,
        }
    }

    /// Whether the desired content is the target, even if the target is not known now.
    pub(super) fn is_run_for(&self, unit: &Unit) -> bool {
        let run = self.open_run();
        matches!(unit.desired, Desired::Content { revision, .. } if run.is_some_and(|run| run.target == revision))
    }

    /// Updates since when its units are confirmed, and the results of its gates since then.
    fn update_course(&mut self, place: usize, stage: &Stage) {
        if !self.unconfirmed_in(place).is_empty() {
            self.memory.course.clear_since = None;
            self.memory.course.gates.clear();
            return;
        }
        let since = *self.memory.course.clear_since.get_or_insert(self.now);
        self.memory
            .course
            .gates
            .resize(stage.gates.len(), GateCount::default());
        for (at, gate) in stage.gates.iter().enumerate() {
            if let Some(known) = self.memory.course.gates.get_mut(at) {
                known.is_of(gate);
            }
            for reading in self
                .spec
                .readings
                .iter()
                .filter(|reading| reading.gate == gate_id(place, at))
            {
                if let Some(known) = self.memory.course.gates.get_mut(at) {
                    known.count(gate, reading, since);
                }
            }
        }
    }

    /// What a stage that was checked waits for.
    fn lack(&self, place: usize, stage: &Stage) -> Option<Lack> {
        let course = &self.memory.course;
        let Some(since) = course.clear_since else {
            return Some(Lack::Units(self.unconfirmed_in(place).into()));
        };
        if stage.approval && !course.approved.contains(&stage.id()) {
            return Some(Lack::Approval);
        }
        if course.promoted.contains(&stage.id()) {
            return None;
        }
        let until = since.plus(stage.soak);
        if until > self.now {
            return Some(Lack::Soak(until));
        }
        let holds = |(gate, known): (&Gate, &GateCount)| known.passes >= gate.passes;
        let failing = stage
            .gates
            .iter()
            .zip(&course.gates)
            .position(|both| !holds(both));
        failing.map(Lack::Gate)
    }

    /// Some of the units of a stage that are not confirmed and hold it up.
    fn unconfirmed_in(&self, place: usize) -> Vec<UnitId> {
        let of_it = self
            .units
            .iter()
            .filter(|unit| unit.place.is(place) && unit.is_needed());
        let open = of_it.filter(|unit| !self.is_confirmed(unit)).take(NAMED);
        open.map(|unit| unit.id.clone()).collect()
    }

    /// What the open stage waits for: the reason of units of later stages.
    pub(super) fn why_stage(&self) -> Option<Why> {
        let (place, stage) = self.open_stage()?;
        let name = stage.name.clone();
        let why = match self.lack(place, stage) {
            Some(Lack::Approval) => Why::WaitingApproval { stage: name },
            Some(Lack::Gate(at)) => {
                let known = self.memory.course.gates.get(at).copied().unwrap_or_default();
                Why::WaitingGate {
                    stage: name,
                    gate: gate_id(place, at),
                    last: known.last.map(|(at, outcome)| (outcome, at)),
                    passes: (known.passes, stage.gates.get(at).map_or(0, |gate| gate.passes)),
                }
            }
            Some(Lack::Soak(until)) => Why::WaitingStage {
                stage: name,
                units: [].into(),
                until: Some(until),
            },
            Some(Lack::Units(units)) => Why::WaitingStage {
                stage: name,
                units,
                until: None,
            },
            // It is done, but the read is not complete.
            None => Why::WaitingStage {
                stage: name,
                units: [].into(),
                until: None,
            },
        };
        Some(why)
    }

    /// The gates of the open stage that must be read now.
    pub(super) fn readings_to_take(&self) -> Vec<Step> {
        let due = self.gates_to_read().filter(|(_, at)| *at <= self.now);
        due.map(|(gate, _)| Step::Evaluate { gate }).collect()
    }

    /// When time alone changes something in the open stage.
    pub(super) fn stage_ends(&self) -> impl Iterator<Item = Millis> {
        let soak = self.open_stage().and_then(|(_, stage)| {
            let since = self.memory.course.clear_since?;
            Some(since.plus(stage.soak))
        });
        self.gates_to_read().map(|(_, at)| at).chain(soak)
    }

    /// The gates of the open stage that have not passed yet, and when each must be read.
    fn gates_to_read(&self) -> impl Iterator<Item = (GateId, Millis)> {
        let course = &self.memory.course;
        let open = self
            .open_stage()
            .filter(|(_, stage)| course.clear_since.is_some() && !course.promoted.contains(&stage.id()));
        open.into_iter().flat_map(move |(place, stage)| {
            let gates = stage.gates.iter().zip(&course.gates).enumerate();
            let unmet = gates.filter(|(_, (gate, known))| known.passes < gate.passes);
            unmet.map(move |(at, (gate, known))| {
                let next = known.last.map_or(Millis(0), |(at, _)| at.plus(gate.interval));
                (gate_id(place, at), next)
            })
        })
    }

    /// How many more units of each stage may be in flight, for stages with a limit.
    pub(super) fn stage_windows(&self) -> StageWindows {
        let stages = self.spec.stages.iter().enumerate();
        let room = stages.map(|(place, stage)| {
            let limit = self.stage_limit(place, stage)?;
            Some(limit.saturating_sub(count(self.in_flight_in_stage(place))))
        });
        StageWindows { room: room.collect() }
    }

    /// The reason of units that wait for a turn in their stage, for each stage whose limit is used up.
    pub(super) fn full_stages(&self) -> Vec<Option<Why>> {
        let stages = self.spec.stages.iter().enumerate();
        let full = stages.map(|(place, stage)| {
            let limit = self.stage_limit(place, stage)?;
            let holders: Vec<UnitId> = self.in_flight_in_stage(place).cloned().collect();
            (count(holders.iter()) >= limit).then(|| Why::WaitingTurn {
                holders: holders.into_iter().take(NAMED).collect(),
                limit,
            })
        });
        full.collect()
    }

    fn stage_limit(&self, place: usize, stage: &Stage) -> Option<u32> {
        let limit = stage.limit?;
        let counted = |unit: &&&Unit| unit.place.is(place) && unit.selected() && unit.is_eligible();
        Some(limit.of(count(self.units.iter().filter(counted))))
    }

    /// The units that take slots of a stage's limit.
    fn in_flight_in_stage(&self, place: usize) -> impl Iterator<Item = &UnitId> {
        let changes = self.memory.in_flight.iter().filter(|(_, change)| change.counts());
        let of_it = changes
            .filter(move |(id, change)| self.unit_of(id, change).is_some_and(|unit| unit.place.is(place)));
        of_it.map(|(id, _)| id)
    }
}

impl StageWindows {
    /// Whether the stage's limit has room for the unit.
    pub(super) fn admit(&self, unit: &Unit) -> bool {
        self.room_of(unit).is_none_or(|room| room > 0)
    }

    pub(super) fn take(&mut self, unit: &Unit) {
        if let StagePosition::Stage(place) = unit.place
            && let Some(Some(room)) = self.room.get_mut(usize::from(place))
        {
            *room = room.saturating_sub(1);
        }
    }

    fn room_of(&self, unit: &Unit) -> Option<u32> {
        match unit.place {
            StagePosition::Stage(place) => self.room.get(usize::from(place)).copied().flatten(),
            StagePosition::Last | StagePosition::Excluded => None,
        }
    }
}

impl Stage {
    fn id(&self) -> StageId {
        StageId::of(&self.name)
    }
}

impl GateCount {
    /// Drops results of other gate definitions.
    fn is_of(&mut self, gate: &Gate) {
        if self.definition != gate.definition {
            *self = Self {
                definition: gate.definition,
                ..Self::default()
            };
        }
    }

    /// Records a reading, if it is newer than the last one and was taken after all units were confirmed.
    fn count(&mut self, gate: &Gate, reading: &Reading, since: Millis) {
        if reading.at < since || self.last.is_some_and(|(at, _)| reading.at <= at) {
            return;
        }
        self.last = Some((reading.at, reading.outcome));
        match reading.outcome {
            GateResult::Pass => self.passes = self.passes.saturating_add(1),
            GateResult::NoData if !gate.no_data_fails => {}
            GateResult::Fail | GateResult::NoData => self.passes = 0,
        }
    }
}

impl StagePosition {
    fn is(self, stage: usize) -> bool {
        matches!(self, Self::Stage(place) if usize::from(place) == stage)
    }
}

fn gate_id(stage: usize, gate: usize) -> GateId {
    let place = |at: usize| u8::try_from(at).unwrap_or(u8::MAX);
    GateId {
        stage: place(stage),
        gate: place(gate),
    }
}
