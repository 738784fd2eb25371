//! Simulates random histories of a group around the shipped decisions, and checks them against the laws.
//!
//! Up to five zones with up to twenty pods each; two leaders that are killed between any two steps, and read one list
//! after the other; deletions and allowed evictions that arrive late, lost answers, stale statuses and watches; an
//! autoscaler, followers, drains; pods that fail.

mod chance;
mod drains;
mod leaders;
mod reviews;
mod sets;
mod world;

use jiff::SignedDuration;

use self::{
    sets::name,
    world::{Holds, World},
};

/// Number of user and machine events before a good revision.
const EVENTS: usize = 800;
/// Number of events within which a good revision must reach all pods.
const LONGEST: usize = 100_000;

/// Statistics of a history.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub steps: u64,
    pub deletions: u64,
    pub evictions: u64,
    pub downscales: u64,
    pub conflicts: u64,
    pub kills: u64,
    pub condemned: u64,
}

impl Tally {
    /// Adds the statistics of another history.
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.deletions += other.deletions;
        self.evictions += other.evictions;
        self.downscales += other.downscales;
        self.conflicts += other.conflicts;
        self.kills += other.kills;
        self.condemned += other.condemned;
    }
}

/// Simulates the history of a seed; the error contains the violated law and the preceding events.
pub(crate) fn run_seed(seed: u64) -> Result<Tally, String> {
    let mut world = World::new(seed);
    let describe = |broken: String| format!("seed {seed}: {broken}");
    for _ in 0..EVENTS {
        if world.chance.is(40) {
            world.people();
        }
        world.step().map_err(describe)?;
    }
    world.calm();
    let mut steps = 0;
    while !world.is_done() {
        world.step().map_err(describe)?;
        steps += 1;
        if steps > LONGEST {
            return Err(describe(world.broken("r4 does not get everywhere")));
        }
    }
    Ok(world.tally)
}

impl World {
    fn step(&mut self) -> Holds {
        self.tally.steps += 1;
        let pause = if self.chance.is(25) {
            self.chance.seconds(20)
        } else {
            SignedDuration::from_millis(200)
        };
        self.now += pause;
        if self.chance.below(3_000) == 0 {
            self.outage = self.now + SignedDuration::from_secs(150);
        }
        match self.chance.below(10) {
            0..=2 => {
                let leader = self.chance.below(2);
                self.lead(leader)?;
            }
            3 => self.arrive()?,
            4 | 5 if !self.reviews.is_empty() => self.review(),
            6 if !self.evicting.is_empty() || !self.drained.is_empty() => self.evict(),
            _ => self.cluster(),
        }
        self.retry();
        Ok(())
    }

    /// A request from a user or a machine.
    fn people(&mut self) {
        match self.chance.below(10) {
            of if of < self.releases => {
                let revision = u32::try_from(self.chance.below(4)).unwrap();
                self.release(revision, 700);
            }
            0..=5 => self.autoscale(),
            6..=8 => self.drain(),
            _ => {
                self.spec.paused = !self.spec.paused;
                self.version += 1;
            }
        }
    }

    /// Sets the templates to this revision, each with the given chance out of a thousand.
    fn release(&mut self, revision: u32, chance: usize) {
        self.log_event(format!("release r{revision}"));
        for at in 0..self.sets.len() {
            if self.sets[at].template != revision && self.chance.is(chance) {
                self.sets[at].template = revision;
                self.sets[at].changed();
            }
        }
    }

    /// The autoscaler requests another number of replicas, or repeats an unfulfilled request.
    fn autoscale(&mut self) {
        let all = self.sets.len();
        let again = self.chance.is(700);
        let wanted = self.wanted.take().filter(|_| again);
        let (at, to) = wanted.unwrap_or_else(|| {
            let at = if self.sets[all - 1].follows {
                0
            } else {
                self.chance.below(all)
            };
            let most = self.sets[at].replicas + self.chance.below(4);
            (at, most.saturating_sub(self.chance.below(5)).clamp(1, 20))
        });
        let replicas = self.sets[at].replicas;
        if to < replicas && self.sets[at].prepares {
            self.wanted = Some((at, to));
            let review = reviews::Reviewing::new(self, at, to, None);
            self.reviews.push(review);
        } else if to != replicas {
            self.log_event(format!("{} is scaled from {replicas} to {to}", name(at)));
            self.sets[at].scaled(to);
        }
    }

    /// A user retries a condemned revision.
    fn retry(&mut self) {
        if !self.record.sets.values().any(|set| set.condemned) || !self.chance.is(20) {
            return;
        }
        if let Some(revision) = self.record.revision.clone() {
            self.tally.condemned += 1;
            self.spec.retry = Some(format!("{revision}.{}", self.tally.condemned));
            self.version += 1;
        }
    }

    /// Sets a good revision, and lets time pass.
    fn calm(&mut self) {
        self.spec.paused = false;
        self.version += 1;
        self.drained.clear();
        self.release(4, 1_000);
    }

    /// Whether the good revision has reached all pods, nothing is in progress, and followers match their leader.
    fn is_done(&self) -> bool {
        let leader = self.sets[0].replicas;
        self.record.in_flight.is_empty()
            && self.record.operation.is_none()
            && self
                .sets
                .iter()
                .all(|set| set.is_rolled_out() && (!set.follows || set.replicas == leader))
    }
}
