//! Random histories, each generated from a seed: whatever happens the laws hold, and a fair time afterwards reaches the
//! goal.

mod end;
mod events;
mod scenario;

use thiserror::Error;

pub use self::scenario::Scenario;
use crate::laws::{Broken, Decide};
use crate::{Laws, Simulation, Tally};

/// A history that breaks a law.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("seed {seed}, {units} units, {at} after the beginning: {broken}")]
pub struct FailedHistory {
    /// The seed that reproduces it.
    pub seed: u64,
    /// Number of units.
    pub units: usize,
    /// The simulated time.
    pub at: muster_rollout::Millis,
    /// The broken law, and how.
    pub broken: Broken,
}

/// A summary of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySummary {
    /// Number of units at the end.
    pub units: usize,
    /// The simulated duration.
    pub took: muster_rollout::Millis,
    /// Counts of events.
    pub tally: Tally,
}

/// Runs the history of a seed, and checks the laws at every decision and every write.
pub fn run_history(seed: u64, decide: Decide<'_>) -> Result<HistorySummary, FailedHistory> {
    let scenario = Scenario::of(seed);
    let units = scenario.members.len();
    let laws = Laws::new(&scenario.spec);
    let Scenario {
        spec,
        members,
        newcomer,
        surroundings,
        happenings,
        horizon,
        ending,
    } = scenario;
    let begin = scenario::BEGIN;
    let mut simulation = Simulation::new(
        decide,
        spec,
        muster_rollout::Memory::default(),
        members,
        newcomer,
        seed,
        laws,
    )
    .starting_at(begin);
    simulation.surroundings = surroundings;
    for (at, happening) in happenings {
        simulation.plan_for(begin.plus(at), happening);
    }
    let ended = simulation
        .run_until(begin.plus(horizon))
        .and_then(|()| end::well(&mut simulation, &ending));
    let took = simulation.now().since(begin);
    match ended {
        Ok(()) => Ok(HistorySummary {
            units: simulation.members.len(),
            took,
            tally: simulation.tally,
        }),
        Err(broken) => Err(FailedHistory {
            seed,
            units,
            at: took,
            broken,
        }),
    }
}
