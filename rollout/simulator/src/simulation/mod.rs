//! The simulated fleet: events in the order of time.

mod agents;
mod happen;
mod lead;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use muster_driver::Tested;
use muster_rollout::{
    Content, Echo, GateId, Incarnation, Memory, Millis, Revision, RunState, Spec, StageId, Token, Unit,
    UnitId,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::laws::{Broken, Decide, Verdict};
use crate::queue::Queue;
use crate::{Happening, Member, Witness};

/// What lies between who decides and the units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// From a change until it is decided on: the shortest and the longest time.
    pub think: (Millis, Millis),
    /// From a decision until its row is written, and from a report until it is seen.
    pub carry: (Millis, Millis),
    /// Of a hundred writes and reports, so many are lost.
    pub lost: u8,
    /// Of a hundred writes, so many come twice.
    pub twice: u8,
    /// Of a hundred decisions, so many are made on an older view.
    pub stale: u8,
    /// Of a hundred decisions, so many are written late.
    pub slow: u8,
    /// After how long a unit says again what was lost.
    pub resync: Millis,
    /// After how long somebody approves a stage that waits for that. None: nobody does.
    pub approval: Option<Millis>,
    /// Of a hundred readings of a gate, so many hold.
    pub holds: u8,
}

impl Surroundings {
    /// Nothing is lost, and everything comes at once.
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

/// What happened, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Tally {
    pub events: u64,
    pub decisions: u64,
    pub rows: u64,
    pub refused: u64,
    pub lost: u64,
    pub overtaken: u64,
    pub crashes: u64,
    pub good: u64,
    pub bad: u64,
}

/// How a simulation came to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing is to come.
    Quiet,
    /// So many events did not suffice.
    Restless,
}

/// A write on its way: it fails if the row is not as it was seen (W3).
#[derive(Clone, Debug)]
struct Flying {
    unit: UnitId,
    write: Tested,
    /// How often the unit's row was written: an append fails if that is another number than it was.
    writes: u32,
    /// The life for which it was decided: it never comes to another.
    life: Incarnation,
    /// The number of the view that it was decided on.
    view: usize,
    lost: bool,
}

/// What a decider read.
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
    /// It is time to decide, if that is still wanted at this instant.
    Decide(Millis),
    /// The memory asked to be woken, if it still does.
    Wake(Millis),
    /// A slow decider writes.
    Commit(Box<Read>),
    /// There is somebody again who decides.
    Lead {
        gap: Millis,
        lost: bool,
    },
    Write(Box<Flying>),
    Picks(UnitId, Incarnation, Token),
    Finishes(UnitId, Incarnation, Token),
    Looks(UnitId, Incarnation),
    Report(UnitId, Incarnation, Echo),
    /// A gate is read.
    Gate(GateId),
    Happens(Happening),
}

/// A simulated fleet.
pub struct Simulation<'a, W> {
    /// What people wish.
    pub spec: Spec,
    /// What was last written.
    pub memory: Memory,
    /// The fleet.
    pub members: BTreeMap<UnitId, Member>,
    /// What lies between.
    pub surroundings: Surroundings,
    /// Who looks on.
    pub witness: W,
    /// What happened so far.
    pub tally: Tally,
    now: Millis,
    decide: Decide<'a>,
    /// For units that join.
    newcomer: Member,
    lives: u32,
    /// Counts the writes of settings and memory: they are one object, written by compare-and-swap.
    version: u64,
    queue: Queue<Event>,
    random: StdRng,
    /// Counts the views: one after each event.
    views: usize,
    /// The last views that were decided on.
    old: VecDeque<(usize, Vec<Unit>)>,
    decide_at: Option<Millis>,
    wake_at: Option<Millis>,
    leaderless: bool,
    /// Writes on their way.
    flying: BTreeMap<(UnitId, Token), usize>,
    gates: BTreeSet<GateId>,
    /// Runs and stages that somebody is about to approve.
    approving: BTreeSet<(u64, StageId)>,
    /// What an acknowledgement would have to name.
    held: Option<String>,
    said: u64,
}

impl<'a, W: Witness> Simulation<'a, W> {
    /// A fleet that this function decides about; `newcomer` is what a unit is like that joins.
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
            surroundings: Surroundings::FAIR,
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
            said: 0,
        };
        simulation.change();
        simulation
    }

    /// The instant that it has come to.
    pub const fn now(&self) -> Millis {
        self.now
    }

    /// It begins at this instant.
    #[must_use]
    pub fn starting_at(mut self, now: Millis) -> Self {
        self.now = now;
        self.queue.retain(|event| !matches!(event, Event::Decide(_)));
        self.decide_at = None;
        self.change();
        self
    }

    /// This will happen.
    pub fn plan_for(&mut self, at: Millis, happening: Happening) {
        self.queue.push(at, Event::Happens(happening));
    }

    /// Each unit looks at what it has: what was under way goes on.
    pub fn rouse(&mut self) {
        let everybody: Vec<(UnitId, Incarnation)> = self
            .members
            .iter()
            .map(|(id, member)| (id.clone(), member.incarnation))
            .collect();
        for (id, life) in everybody {
            self.queue.push(self.now, Event::Looks(id, life));
        }
    }

    /// Nobody is about to approve anything any more.
    pub(crate) fn forget_approvals(&mut self) {
        self.approving.clear();
    }

    /// Everything that happens until then.
    pub fn run_until(&mut self, end: Millis) -> Verdict {
        while self.queue.next_at().is_some_and(|at| at <= end) {
            self.step()?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Everything that happens until nothing is to come, at most so many events.
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

    /// What is seen now.
    pub fn view(&self) -> Vec<Unit> {
        let seen = |(id, member): (&UnitId, &Member)| member.unit(id, self.spec.target, &self.memory);
        self.members.iter().map(seen).collect()
    }

    /// The units that carry this revision.
    pub fn carrying(&self, revision: Revision) -> usize {
        let carries = |member: &&Member| match member.row.map(|row| row.content) {
            Some(Content::Carries {
                revision: Some(carried),
                ..
            }) => carried == revision,
            _ => false,
        };
        self.members.values().filter(carries).count()
    }

    /// The run of the target ended well.
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
        self.happen(event)?;
        if self.flying.is_empty() && self.memory.charges.is_empty() {
            let view = self.view();
            self.witness.calm(&self.spec, &view);
        }
        self.views += 1;
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Verdict {
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
            Event::Looks(id, life) => self.looks(&id, life),
            Event::Report(id, life, echo) => self.reports(&id, life, &echo),
            Event::Gate(gate) => self.reads_gate(gate),
            Event::Happens(happening) => self.befalls(happening),
        }
        Ok(())
    }

    /// Something changed that is to be decided on.
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
