//! The simulated fleet: events in order of time.

mod agents;
mod events;
mod lead;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use muster_driver::Tested;
use muster_rollout::{
    Content, GateId, Incarnation, Memory, Millis, Report, Revision, RunState, Spec, StageId, Token, Unit,
    UnitId,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::laws::{Broken, Decide, Verdict};
use crate::queue::Queue;
use crate::{FleetEvent, Member, Witness};

/// Delays and losses between the leader and the units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Minimum and maximum time from a change until a decision.
    pub think: (Millis, Millis),
    /// From a decision until the assignment is written, and from a report until it is visible.
    pub carry: (Millis, Millis),
    /// Percentage of writes and reports that are lost.
    pub lost: u8,
    /// Percentage of writes that arrive twice.
    pub twice: u8,
    /// Percentage of decisions that use an older view.
    pub stale: u8,
    /// Percentage of decisions that are written late.
    pub slow: u8,
    /// After how long a unit repeats a lost report.
    pub resync: Millis,
    /// After how long a waiting stage is approved. None: never.
    pub approval: Option<Millis>,
    /// Percentage of gate readings that pass.
    pub holds: u8,
}

impl Delays {
    /// Nothing is lost, and nothing is delayed.
    pub const FAIR: Self = Self {
        think: (Millis(0), Millis(0)),
        carry: (Millis(0), Millis(0)),
        lost: 0,
        twice: 0,
        stale: 0,
        slow: 0,
        resync: Millis::seconds(30),
        approval: Some(Millis(0)),
        holds: 100,
    };
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Tally {
    pub events: u64,
    pub decisions: u64,
    pub assignments: u64,
    pub refused: u64,
    pub lost: u64,
    pub overtaken: u64,
    pub crashes: u64,
    pub good: u64,
    pub bad: u64,
}

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// No event is pending.
    Quiet,
    /// The maximum number of events was reached.
    Restless,
}

/// A pending write: it fails if the assignment is not as it was read (W3).
#[derive(Clone, Debug)]
struct PendingWrite {
    unit: UnitId,
    write: Tested,
    /// How often the unit's assignment was written: an append fails if that number has changed.
    writes: u32,
    /// The incarnation that it was decided for: it is never applied to another.
    life: Incarnation,
    /// The number of the view that it was decided on.
    view: usize,
    lost: bool,
}

/// What a leader read.
#[derive(Clone, Debug)]
struct Read {
    version: u64,
    spec: Spec,
    memory: Memory,
    view: Vec<Unit>,
    number: usize,
    now: Millis,
}

#[derive(Debug)]
enum Event {
    /// A decision is due, if it is still wanted at this time.
    Decide(Millis),
    /// The memory asked to be woken, if it still does.
    Wake(Millis),
    /// A slow leader writes.
    Commit(Box<Read>),
    /// There is a leader again.
    Lead {
        gap: Millis,
        lost: bool,
    },
    Write(Box<PendingWrite>),
    Picks(UnitId, Incarnation, Token),
    Finishes(UnitId, Incarnation, Token),
    Looks(UnitId, Incarnation),
    Report(UnitId, Incarnation, Report),
    /// A gate is read.
    Gate(GateId),
    Happens(FleetEvent),
}

/// A simulated fleet.
pub struct Simulation<'a, W> {
    /// The desired state.
    pub spec: Spec,
    /// The last written memory.
    pub memory: Memory,
    /// The fleet.
    pub members: BTreeMap<UnitId, Member>,
    /// Delays and losses between the leader and the units.
    pub surroundings: Delays,
    /// The witness of the simulation.
    pub witness: W,
    /// Counts of events so far.
    pub tally: Tally,
    now: Millis,
    decide: Decide<'a>,
    /// The properties of units that join.
    newcomer: Member,
    lives: u32,
    /// Number of writes of settings and memory: they are one object, written by compare-and-swap.
    version: u64,
    queue: Queue<Event>,
    random: StdRng,
    /// Number of views: one after each event.
    views: usize,
    /// The last views that were used for decisions.
    old: VecDeque<(usize, Vec<Unit>)>,
    decide_at: Option<Millis>,
    wake_at: Option<Millis>,
    leaderless: bool,
    /// Pending writes.
    flying: BTreeMap<(UnitId, Token), usize>,
    gates: BTreeSet<GateId>,
    /// Runs and stages that will be approved.
    approving: BTreeSet<(u64, StageId)>,
    /// The name that an acknowledgement must contain.
    held: Option<String>,
    last_control: u64,
}

impl<'a, W: Witness> Simulation<'a, W> {
    /// A fleet with this decision function; `newcomer` has the properties of units that join.
    pub fn new(
        decide: Decide<'a>,
        spec: Spec,
        memory: Memory,
        members: BTreeMap<UnitId, Member>,
        newcomer: Member,
        seed: u64,
        witness: W,
    ) -> Self {
        let mut simulation = Self {
            spec,
            memory,
            members,
            surroundings: Delays::FAIR,
            witness,
            tally: Tally::default(),
            now: Millis(0),
            decide,
            newcomer,
            lives: 0,
            version: 0,
            queue: Queue::default(),
            random: StdRng::seed_from_u64(seed),
            views: 1,
            old: VecDeque::new(),
            decide_at: None,
            wake_at: None,
            leaderless: false,
            flying: BTreeMap::new(),
            gates: BTreeSet::new(),
            approving: BTreeSet::new(),
            held: None,
            last_control: 0,
        };
        simulation.change();
        simulation
    }

    /// The current simulated time.
    pub const fn now(&self) -> Millis {
        self.now
    }

    /// Sets the start time.
    #[must_use]
    pub fn starting_at(mut self, now: Millis) -> Self {
        self.now = now;
        self.queue.retain(|event| !matches!(event, Event::Decide(_)));
        self.decide_at = None;
        self.change();
        self
    }

    /// Adds an event.
    pub fn plan_for(&mut self, at: Millis, happening: FleetEvent) {
        self.queue.push(at, Event::Happens(happening));
    }

    /// Each unit reads its assignment: pending work continues.
    pub fn rouse(&mut self) {
        let units: Vec<(UnitId, Incarnation)> = self
            .members
            .iter()
            .map(|(id, member)| (id.clone(), member.incarnation))
            .collect();
        for (id, life) in units {
            self.queue.push(self.now, Event::Looks(id, life));
        }
    }

    /// Drops pending approvals.
    pub(crate) fn forget_approvals(&mut self) {
        self.approving.clear();
    }

    /// Runs all events until this time.
    pub fn run_until(&mut self, end: Millis) -> Verdict {
        while self.queue.next_at().is_some_and(|at| at <= end) {
            self.step()?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Runs until no event is pending, with a maximum number of events.
    pub fn settle(&mut self, most: u64) -> Result<Rest, Broken> {
        let last = self.tally.events.saturating_add(most);
        while self.queue.next_at().is_some() {
            if self.tally.events >= last {
                return Ok(Rest::Restless);
            }
            self.step()?;
        }
        Ok(Rest::Quiet)
    }

    /// The current view.
    pub fn view(&self) -> Vec<Unit> {
        let unit_of = |(id, member): (&UnitId, &Member)| member.unit(id, self.spec.target, &self.memory);
        self.members.iter().map(unit_of).collect()
    }

    /// The units that have this revision.
    pub fn carrying(&self, revision: Revision) -> usize {
        let carries = |member: &&Member| match member.assignment.map(|row| row.content) {
            Some(Content::Carries {
                revision: Some(carried),
                ..
            }) => carried == revision,
            _ => false,
        };
        self.members.values().filter(carries).count()
    }

    /// Whether the run of the target ended well.
    pub fn is_good(&self) -> bool {
        self.memory
            .run
            .is_some_and(|run| run.state == RunState::Good && Some(run.target) == self.spec.target)
    }

    fn step(&mut self) -> Verdict {
        let Some((at, event)) = self.queue.pop() else {
            return Ok(());
        };
        let outdated = match event {
            Event::Decide(at) => self.decide_at != Some(at),
            Event::Wake(at) => self.wake_at != Some(at),
            _ => false,
        };
        if outdated {
            return Ok(());
        }
        self.now = self.now.max(at);
        self.tally.events += 1;
        self.handle(event)?;
        if self.flying.is_empty() && self.memory.in_flight.is_empty() {
            let view = self.view();
            self.witness.calm(&self.spec, &view);
        }
        self.views += 1;
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Verdict {
        match event {
            Event::Decide(_) => self.decide()?,
            Event::Wake(_) => {
                self.wake_at = None;
                self.change();
            }
            Event::Commit(read) => self.commit(&read)?,
            Event::Lead { gap, lost } => self.lead_again(gap, lost)?,
            Event::Write(flying) => self.arrive(&flying)?,
            Event::Picks(id, life, token) => self.picks(&id, life, token),
            Event::Finishes(id, life, token) => self.finishes(&id, life, token),
            Event::Looks(id, life) => self.read_assignment(&id, life),
            Event::Report(id, life, report) => self.reports(&id, life, &report),
            Event::Gate(gate) => self.reads_gate(gate),
            Event::Happens(happening) => self.befalls(happening),
        }
        Ok(())
    }

    /// Schedules a decision after a change.
    fn change(&mut self) {
        if self.leaderless || self.decide_at.is_some() {
            return;
        }
        let at = self.now.plus(self.between(self.surroundings.think));
        self.decide_at = Some(at);
        self.queue.push(at, Event::Decide(at));
    }

    fn between(&mut self, (least, most): (Millis, Millis)) -> Millis {
        if most.0 <= least.0 {
            return least;
        }
        Millis(self.random.random_range(least.0..=most.0))
    }

    fn carry(&mut self) -> Millis {
        self.between(self.surroundings.carry)
    }

    fn chance(&mut self, of_a_hundred: u8) -> bool {
        of_a_hundred > 0 && self.random.random_range(0..100) < of_a_hundred
    }
}
