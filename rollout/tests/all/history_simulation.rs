//! A world with events: leaders that race, writes that are late, lost or repeated, units that join and leave.

use std::collections::{BTreeMap, BTreeSet};

use muster_driver::{Facts, Recalled, Rules, Tested};
use muster_rollout::{
    Absence, Batch, Class, Content, Control, ControlCommand, Decision, Domain, Domains, Eligible, Gate,
    GateId, GateResult, InFlight, Incarnation, Ineligible, Kind, Limit, Memory, Millis, OnFailure, OnJoin,
    Reading, RefusedWrite, Report, Spec, Stage, StagePosition, State, Step, Unit, UnitId, Why, plan,
};

use muster_simulator::laws::{self, Case, Observer, Verdicts};

use crate::coverage::Coverage;
use crate::histories::{Event, Word};
use crate::world::{UNREACHABLE, World, failure, ineligible, label, rev};

/// The broken law, as text.
pub(crate) type Verdict = Result<(), String>;

pub(crate) const NAMES: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const TARGETS: [&str; 6] = ["r1", "r2", "r3-bad", "r4", "r5-bad", "r6"];

/// A pending write: it fails if the assignment is not as it was read (W3).
#[derive(Clone)]
struct Flying {
    unit: UnitId,
    write: Tested,
    /// How often the unit's assignments were written: an append fails if that number has changed.
    writes: u32,
    /// The incarnation that it was decided for. It is never applied to another: assignments are removed with their
    /// unit, and the shell appends only for the owner that it decided for (its test `namesake`).
    life: Incarnation,
    /// The number of the view that it was decided on.
    view: usize,
}

/// What a leader read.
#[derive(Clone)]
struct Snapshot {
    version: u64,
    spec: Spec,
    memory: Memory,
    view: Vec<Unit>,
    number: usize,
    now: Millis,
}

pub(crate) struct HistorySimulation<'a> {
    pub world: World,
    coverage: &'a Coverage,
    eye: Observer,
    /// Number of writes of the module: settings and memory are one object, written by compare-and-swap.
    version: u64,
    views: Vec<Vec<Unit>>,
    deciders: [Option<Snapshot>; 2],
    flying: Vec<Flying>,
    writes: BTreeMap<String, u32>,
    trouble: BTreeMap<String, Class>,
    targets: BTreeSet<usize>,
    /// The time at which the last decision asked to be woken.
    wake_at: Option<Millis>,
    /// All verdicts so far.
    verdicts: Verdicts,
    /// Number of one-time commands.
    command_count: u64,
}

/// The settings of a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub min_ready: u64,
    pub max_failed: u32,
    pub on_join: OnJoin,
    pub on_failure: OnFailure,
    pub domains: Domains,
    pub stages: bool,
    pub batches: bool,
    /// A change of an available unit starts only while all others are available and not changing.
    pub budget: bool,
}

impl Settings {
    pub(crate) const PLAIN: Self = Self {
        min_ready: 0,
        max_failed: 0,
        on_join: OnJoin::LastGood,
        on_failure: OnFailure::Halt,
        domains: Domains::ANY,
        stages: false,
        batches: false,
        budget: false,
    };
}

const BATCH: Batch = Batch {
    start: 1,
    factor: 2,
    max: 3,
};

/// a is the canary, which is soaked and approved; b and c come after it, followed by a gate; d comes last.
fn stages() -> Vec<Stage> {
    let gate = Gate {
        definition: 1,
        interval: Millis::seconds(20),
        passes: 2,
        no_data_fails: false,
    };
    let canary = Stage {
        name: "canary".into(),
        limit: None,
        soak: Millis::seconds(20),
        approval: true,
        gates: Vec::new(),
    };
    let most = Stage {
        name: "most".into(),
        limit: Some(Limit::Count(1)),
        soak: Millis(0),
        approval: false,
        gates: vec![gate],
    };
    vec![canary, most]
}

/// a and b share a domain.
fn settle_in(world: &mut World, name: &str) {
    let staged = !world.spec.stages.is_empty();
    let member = world.member(name);
    member.place = match name {
        "a" if staged => StagePosition::Stage(0),
        "b" | "c" if staged => StagePosition::Stage(1),
        _ => StagePosition::Last,
    };
    member.domain = match name {
        "a" | "b" => Domain::nth(0),
        "c" => Domain::nth(1),
        _ => None,
    };
}

impl<'a> HistorySimulation<'a> {
    pub(crate) fn new(coverage: &'a Coverage, settings: &Settings) -> Self {
        let mut world = World::new(&NAMES, "r1");
        world.spec.min_ready = Millis::seconds(settings.min_ready);
        world.spec.max_failed = Limit::Count(settings.max_failed);
        world.spec.on_join = settings.on_join;
        world.spec.on_failure = settings.on_failure;
        world.spec.domains = settings.domains;
        world.spec.unavailable = settings.budget.then_some(Limit::Count(1));
        world.spec.batch = settings.batches.then_some(BATCH);
        if settings.stages {
            world.spec.stages = stages();
        }
        NAMES.iter().for_each(|name| settle_in(&mut world, name));
        Self {
            views: vec![world.view()],
            eye: Observer::new(&world.spec),
            world,
            verdicts: Verdicts::default(),
            command_count: 0,
            coverage,
            version: 0,
            deciders: [None, None],
            flying: Vec::new(),
            writes: BTreeMap::new(),
            trouble: BTreeMap::new(),
            targets: BTreeSet::from([0]),
            wake_at: None,
        }
    }

    /// Applies the event, and checks the laws.
    pub(crate) fn happen(&mut self, event: &Event) -> Verdict {
        match event {
            Event::Lead { lag, sent } => self.lead(*lag, *sent).map(drop)?,
            Event::Read { who, lag } => self.deciders[*who] = Some(self.read(*lag)),
            Event::Write { who, sent } => self.write(*who, *sent)?,
            Event::Forget => self.forget()?,
            Event::Gap(seconds) => self.gap(Millis::seconds(*seconds))?,
            Event::Deliver(at) if *at < self.flying.len() => {
                let flying = self.flying.remove(*at);
                self.deliver(flying)?;
            }
            Event::Twice(at) => {
                if let Some(flying) = self.flying.get(*at).cloned() {
                    self.coverage.count_case("a write that came twice");
                    self.deliver(flying)?;
                }
            }
            Event::Lose(at) if *at < self.flying.len() => {
                self.coverage.count_case("a write that was lost");
                self.flying.remove(*at);
            }
            Event::Refuse(at) if *at < self.flying.len() => {
                let flying = self.flying.remove(*at);
                self.refuse(&flying);
            }
            Event::Deliver(_) | Event::Lose(_) | Event::Refuse(_) => {}
            Event::Round => self.round(&[]).map(drop)?,
            Event::Time(seconds) => self.pass(Millis::seconds(*seconds)),
            Event::Unit(at, what) => self.happen_to(NAMES[*at], *what),
            Event::Waver(at) => {
                self.happen_to(NAMES[*at], UnitEvent::IsDeselected);
                self.lead(0, 0)?;
                self.happen_to(NAMES[*at], UnitEvent::IsReselected);
            }
            setting => self.set(setting),
        }
        if self.flying.is_empty() && self.world.memory.in_flight.is_empty() {
            self.eye.calm(&self.world.spec, &self.world.view());
        }
        self.views.push(self.world.view());
        Ok(())
    }

    /// A change of the desired state is written into the module: a leader that read it before loses the race.
    fn set(&mut self, event: &Event) {
        self.version += 1;
        match event {
            Event::Target(number) => {
                let back =
                    !self.targets.insert(*number) && self.world.target.as_deref() != Some(TARGETS[*number]);
                self.coverage.note_if("a target that returned", back);
                self.world.aim(TARGETS[*number]);
            }
            Event::NoTarget => (self.world.target, self.world.spec.target) = (None, None),
            Event::Limit(limit) => self.world.spec.limit = *limit,
            Event::Pause(paused) => self.world.spec.paused = *paused,
            Event::Acknowledge => {
                let held = self
                    .world
                    .decide()
                    .reasons
                    .into_iter()
                    .find_map(|(_, why)| match why {
                        Why::WithdrawalHeld { acknowledge, .. } => Some(acknowledge.to_string()),
                        _ => None,
                    });
                self.world.spec.withdraw.acknowledged =
                    held.or_else(|| self.world.spec.withdraw.acknowledged.take());
            }
            Event::GiveUp(units) => {
                self.world.spec.abandoned = units.iter().map(|at| UnitId::from(NAMES[*at])).collect();
            }
            Event::Say(word, target) => {
                let desired = self.world.target.clone().unwrap_or_default();
                let target = rev(target.map_or(desired.as_str(), |at| TARGETS[at]));
                self.command_count += 1;
                let command = match word {
                    Word::Abort => ControlCommand::Abort(target),
                    Word::Retry => ControlCommand::Retry(target),
                    Word::Approve => ControlCommand::Approve(target, "canary".into()),
                    Word::Promote => ControlCommand::Promote(target, "most".into()),
                };
                self.world.spec.controls = vec![Control {
                    id: self.command_count,
                    says: command,
                }];
            }
            Event::Gate(outcome) => {
                let (gate, at, outcome) = (GateId { stage: 1, gate: 0 }, self.world.now, *outcome);
                self.world.spec.readings = vec![Reading { gate, at, outcome }];
            }
            _ => unreachable!("{event:?} is no setting"),
        }
    }

    fn happen_to(&mut self, name: &str, what: UnitEvent) {
        if !self.world.members.contains_key(name) {
            if what == UnitEvent::Joins {
                self.join(name);
            }
            return;
        }
        match what {
            UnitEvent::Works => self.agent(name, false),
            UnitEvent::IsChecked => self.agent(name, true),
            UnitEvent::IsForgotten => self.world.member(name).report = None,
            UnitEvent::Breaks => drop(self.trouble.insert(name.into(), Class::Unit)),
            UnitEvent::IsHeldUp => drop(self.trouble.insert(name.into(), Class::Infra)),
            UnitEvent::Recovers => drop(self.trouble.remove(name)),
            UnitEvent::Disappears => {
                self.world.member(name).eligible = Eligible::No(UNREACHABLE);
                self.eye.went_away(&name.into(), self.world.now);
            }
            UnitEvent::Returns => {
                self.world.find(name);
                self.world.member(name).available = true;
                self.eye.came_back(&name.into(), self.views.len(), self.world.now);
            }
            UnitEvent::IsReplaced => {
                self.leave(name);
                self.join(name);
            }
            UnitEvent::Leaves => self.leave(name),
            UnitEvent::Joins => {}
            UnitEvent::IsDeselected => self.world.deselect(&[name]),
            UnitEvent::IsReselected => self.world.reselect(name),
            UnitEvent::GetsValues => self.world.member(name).values += 1,
            UnitEvent::IsPinned => self.world.member(name).pin = Some("r1".into()),
            UnitEvent::IsUnpinned => self.world.member(name).pin = None,
            UnitEvent::IsBehind => self.world.member(name).eligible = Eligible::NotYet(BEHIND),
            UnitEvent::IsClosed => {
                self.world.member(name).eligible = CLOSED;
                self.eye.came_back(&name.into(), self.views.len(), self.world.now);
            }
            UnitEvent::IsUnavailable => self.world.member(name).available = false,
            UnitEvent::IsHeld => {
                self.world.member(name).eligible = Eligible::No(HELD);
                self.eye.went_away(&name.into(), self.world.now);
            }
        }
    }

    fn join(&mut self, name: &str) {
        self.world.join(name);
        settle_in(&mut self.world, name);
        self.world.member(name).life = u32::try_from(self.views.len()).unwrap();
    }

    fn leave(&mut self, name: &str) {
        self.world.members.remove(name);
        self.trouble.remove(name);
        self.eye.is_gone(&name.into(), self.world.now);
    }

    /// The agent reads a new assignment: it is in progress. It reads it again: it is done, or failed. A report of an
    /// unreachable unit is not visible, except for two of the units, which have another problem.
    fn agent(&mut self, name: &str, checks: bool) {
        let silent = ["a", "b"].contains(&name);
        let trouble = self.trouble.get(name).copied();
        let member = self.world.member(name);
        let Some(row) = member.row.filter(|_| member.eligible == Eligible::Yes || !silent) else {
            return;
        };
        let (digest, revision) = match row.content {
            Content::Carries { digest, revision } => (Some(digest), revision.map(label).unwrap_or_default()),
            Content::Withdraw | Content::Nothing => (None, String::new()),
        };
        let known = member
            .report
            .as_ref()
            .is_some_and(|report| report.token == row.token);
        let state = match (row.content, trouble) {
            (Content::Nothing, _) => return,
            _ if !known || checks => State::Updating,
            (Content::Withdraw, _) => State::Withdrawn,
            (_, Some(Class::Infra)) => failure(Class::Infra, false),
            _ if revision.ends_with("bad") => failure(Class::Revision, true),
            (_, Some(class)) => failure(class, false),
            _ => State::Succeeded,
        };
        self.coverage.note_if(
            "held up by its environment",
            known && trouble == Some(Class::Infra),
        );
        member.report = Some(Report {
            digest,
            token: row.token,
            state: state.clone(),
        });
        let revision = (!revision.is_empty()).then(|| rev(&revision));
        self.eye
            .reported(&name.into(), revision, &state, self.views.len());
    }

    fn pass(&mut self, time: Millis) {
        self.world.pass(time);
    }

    fn read(&self, lag: usize) -> Snapshot {
        let newest = self.world.view();
        let number = self.views.len().saturating_sub(lag);
        let view = match lag {
            0 => newest,
            // The spec is read with the memory; only assignments, reports and eligibility may be outdated.
            _ => self.views[number]
                .iter()
                .map(|unit| with_latest_desired(unit, &newest))
                .collect(),
        };
        Snapshot {
            version: self.version,
            spec: Spec {
                complete: lag == 0,
                ..self.world.spec.clone()
            },
            memory: self.world.memory.clone(),
            view,
            number,
            now: self.world.now,
        }
    }

    pub(crate) fn lead(&mut self, lag: usize, sent: u8) -> Result<Decision, String> {
        let read = self.read(lag);
        self.decide(&read, sent)
    }

    /// A leader writes a decision that is based on an earlier read.
    fn write(&mut self, who: usize, sent: u8) -> Verdict {
        let Some(read) = self.deciders[who].take() else {
            return Ok(());
        };
        if read.version != self.version {
            self.coverage.count_case("compare-and-swap won by the other");
            return Ok(());
        }
        self.coverage.note_if(
            "written on a view that is not the newest",
            read.number < self.views.len(),
        );
        self.decide(&read, sent).map(drop)
    }

    /// W7. A write that is pending when the memory is lost would be unknown: there is none here.
    fn forget(&mut self) -> Verdict {
        self.flying.clear();
        let read = self.read(0);
        let in_flight = !read.memory.in_flight.is_empty();
        self.coverage.note_if("memory lost during a run", in_flight);
        let verdicts = muster_driver::Verdicts {
            last_good: read.memory.last_good,
            bad: read.memory.bad.clone(),
        };
        let memory = Recalled::Lost(verdicts)
            .believed(&read.view, read.now)
            .into_owned();
        self.world.memory = memory.clone();
        for name in memory.in_flight.keys() {
            self.eye.is_adopted(name, read.number);
        }
        self.decide(&Snapshot { memory, ..read }, u8::MAX).map(drop)
    }

    /// There is no leader for a while.
    fn gap(&mut self, gap: Millis) -> Verdict {
        self.pass(gap);
        let read = self.read(0);
        self.coverage
            .note_if("a gap during a run", !read.memory.in_flight.is_empty());
        let memory = &read.memory;
        let memory = Recalled::Kept { memory, gap }
            .believed(&read.view, read.now)
            .into_owned();
        self.decide(&Snapshot { memory, ..read }, u8::MAX).map(drop)
    }

    fn decide(&mut self, read: &Snapshot, sent: u8) -> Result<Decision, String> {
        let facts = Facts {
            spec: &read.spec,
            memory: &read.memory,
            units: &read.view,
            now: read.now,
        };
        let decided = muster_driver::decide(facts, &Rules::shipped());
        let decision = decided.decision();
        self.coverage
            .decided(&read.spec, &read.memory, &read.view, decision);
        let case = Case {
            decide: &plan,
            spec: &read.spec,
            before: &read.memory,
            view: &read.view,
            decision,
            now: read.now,
        };
        laws::examine(&case)?;
        self.verdicts.decided(&case)?;
        self.eye.decided(&case, read.number)?;
        self.world.memory = decision.memory.clone();
        self.version += 1;
        let remembered = decided.written(Ok::<(), String>(()))?;
        for (at, write) in remembered.writes(read.view.as_slice()).into_iter().enumerate() {
            let unit = read.view.iter().find(|unit| unit.id == write.planned().unit);
            let unit = unit.ok_or_else(|| format!("{write:?} is for no unit"))?;
            if sent & (1 << at) != 0 {
                self.flying.push(Flying {
                    unit: unit.id.clone(),
                    write: *write.write(),
                    writes: self.writes.get(unit.id.as_str()).copied().unwrap_or_default(),
                    life: unit.incarnation,
                    view: read.number,
                });
            }
        }
        Ok(remembered.decision().clone())
    }

    /// The API server refuses the write, and would refuse it again.
    fn refuse(&mut self, flying: &Flying) {
        let refusal = RefusedWrite {
            token: flying.write.change.token,
            message: "denied".into(),
        };
        // An abandoned unit takes no slot once its assignment cannot be written, whatever it still does (rule 15).
        let change = self.world.memory.in_flight.get(&flying.unit);
        let given_up = |change: &InFlight| change.kind == Kind::Abandon && change.token == refusal.token;
        if change.is_some_and(given_up) {
            self.eye.is_gone(&flying.unit, self.world.now);
        }
        self.world.spec.refused.insert(flying.unit.clone(), refusal);
        self.version += 1;
    }

    fn deliver(&mut self, flying: Flying) -> Verdict {
        let Flying {
            unit,
            write,
            writes,
            life,
            view,
        } = flying;
        let name = unit.as_str();
        let count = self.writes.entry(name.to_owned()).or_default();
        let Some(member) = self
            .world
            .members
            .get_mut(name)
            .filter(|member| Incarnation::of(&member.life.to_string()) == life)
        else {
            return Ok(());
        };
        let appends = write.read.is_none() && *count != writes;
        let row = write.arrive(member.row, &Rules::shipped()).filter(|_| !appends);
        let Some(row) = row else {
            self.coverage.count_case("a write that failed its test");
            return Ok(());
        };
        *count += 1;
        member.row = Some(row);
        self.world.spec.refused.remove(name);
        self.eye.wrote(&unit, Some(row.content), view, self.world.now)?;
        Ok(())
    }

    /// Every participant acts, and leaders decide, until nothing changes at this time. Bounded.
    pub(crate) fn run_until_quiet(&mut self) -> Verdict {
        for _ in 0..60 {
            if !self.round(&[])? {
                return Ok(());
            }
        }
        Err("there is no end".into())
    }

    /// A leader decides, all writes arrive, all agents except these work. True if something changed.
    fn round(&mut self, stuck: &[&str]) -> Result<bool, String> {
        let before = (self.world.memory.clone(), self.world.view());
        let decision = self.lead(0, u8::MAX)?;
        while let Some(flying) = self.flying.pop() {
            self.deliver(flying)?;
        }
        for name in NAMES.iter().filter(|name| !stuck.contains(*name)) {
            self.happen_to(name, UnitEvent::Works);
        }
        let readings = self.world.spec.readings.clone();
        for step in &decision.steps {
            if let Step::Evaluate { gate } = step {
                let (gate, at, outcome) = (*gate, self.world.now, GateResult::Pass);
                self.world.spec.readings = vec![Reading { gate, at, outcome }];
            }
        }
        self.views.push(self.world.view());
        self.wake_at = decision.wake_at;
        let read = readings != self.world.spec.readings;
        Ok(read || before != (self.world.memory.clone(), self.world.view()))
    }

    /// Everything works from now on except stuck units; time passes only when a decision asked to be woken. Bounded.
    pub(crate) fn fair_run(&mut self, target: &str, limit: u32, stuck: &[&str]) -> Verdict {
        self.trouble.clear();
        let spec = &mut self.world.spec;
        (spec.paused, spec.limit, spec.withdraw.brake) = (false, Limit::Count(limit), None);
        spec.abandoned.clear();
        self.world.aim(target);
        let approved = |stage: &Stage| {
            self.command_count += 1;
            Control {
                id: self.command_count,
                says: ControlCommand::Approve(rev(target), stage.name.clone()),
            }
        };
        self.world.spec.controls = stages().iter().map(approved).collect();
        let members = self.world.members.values_mut();
        members.for_each(|member| member.pin = None);
        for name in self
            .world
            .names()
            .iter()
            .filter(|name| !stuck.contains(&name.as_str()))
        {
            self.happen_to(name, UnitEvent::Returns);
        }
        for _ in 0..200 {
            if self.round(stuck)? {
                continue;
            }
            match self.wake_at {
                Some(at) if at > self.world.now => self.pass(at.since(self.world.now)),
                Some(_) => return Err("EL3: it wakes without effect".into()),
                None => return Ok(()),
            }
        }
        Err(format!("EL1: it does not settle: {}", self.world.words()))
    }
}

/// An event of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitEvent {
    /// Its agent reads its assignment and reports.
    Works,
    /// Its agent checks its content again, which takes a while.
    IsChecked,
    /// Its report is deleted; it reports again when its agent reads the assignment.
    IsForgotten,
    Breaks,
    IsHeldUp,
    Recovers,
    Disappears,
    Returns,
    IsReplaced,
    Leaves,
    Joins,
    IsDeselected,
    IsReselected,
    GetsValues,
    /// To the first target.
    IsPinned,
    IsUnpinned,
    /// Its turn has not come yet; until it returns.
    IsBehind,
    /// It must not be changed; until it returns.
    IsHeld,
    /// Its change window is closed; until it returns.
    IsClosed,
    /// It is unavailable; until it returns.
    IsUnavailable,
}

const BEHIND: Ineligible = ineligible(26, Absence::Skip);
const CLOSED: Eligible = Eligible::Closed {
    why: ineligible(27, Absence::Skip),
    reverts: true,
    withdrawals: false,
};
const HELD: Ineligible = ineligible(8, Absence::Wait);

fn with_latest_desired(unit: &Unit, newest: &[Unit]) -> Unit {
    let now = newest
        .iter()
        .find(|now| now.id == unit.id && now.incarnation == unit.incarnation);
    Unit {
        desired: now.map_or(unit.desired, |now| now.desired),
        ..unit.clone()
    }
}
