//! Events that a scope must reach, so that an empty state space is not taken for a correct one.

use muster_rollout::{Content, InFlight, Kind, Memory, RunState};
use stateright::Property;

use crate::shell::in_flight_of;
use crate::state::{Fit, State};
use crate::world::World;

fn memory(state: &State, is: impl Fn(&Memory) -> bool) -> bool {
    state.module.memory.as_deref().is_some_and(is)
}

fn run(state: &State, wanted: RunState) -> bool {
    memory(state, |memory| memory.run.is_some_and(|run| run.state == wanted))
}

fn any(state: &State, is: impl Fn(&InFlight) -> bool) -> bool {
    memory(state, |memory| memory.in_flight.values().any(&is))
}

fn kind(state: &State, kind: Kind) -> bool {
    any(state, |change| change.kind == kind)
}

fn cluster(world: &World, state: &State, is: impl Fn(usize, Option<&InFlight>) -> bool) -> bool {
    (0..state.clusters.len()).any(|at| is(at, in_flight_of(world, state, at)))
}

fn flying(state: &State, more_than: usize) -> bool {
    state.flying.len() > more_than
}

fn carries(content: Content) -> bool {
    matches!(content, Content::Carries { .. })
}

macro_rules! reached {
    ($($name:literal: |$world:pat_param, $state:ident| $is:expr;)*) => {
        /// The names of the events.
        pub const NAMES: &[&str] = &[$($name,)*];

        pub(crate) fn all() -> Vec<Property<World>> {
            vec![$(Property::sometimes($name, |$world: &World, $state: &State| $is),)*]
        }
    };
}

reached! {
    "a pending write": |_, state| flying(state, 0);
    "two pending writes": |_, state| flying(state, 1);
    "two pending writes to one cluster": |_, state| {
        state.flying.iter().zip(state.flying.iter().skip(1)).any(|(one, other)| one.cluster == other.cluster)
    };
    "done": |_, state| run(state, RunState::Good) && memory(state, |memory| memory.in_flight.is_empty());
    "halted": |_, state| run(state, RunState::Halted);
    "known to be bad": |_, state| run(state, RunState::KnownBad);
    "aborted": |_, state| run(state, RunState::Aborted);
    "a fence": |_, state| kind(state, Kind::Fence);
    "reverting": |_, state| kind(state, Kind::Revert);
    "joins with the last good": |_, state| kind(state, Kind::Join);
    "relapsed": |_, state| kind(state, Kind::Relapsed);
    "withdrawing": |_, state| kind(state, Kind::Withdraw);
    "abandoned during a change": |_, state| kind(state, Kind::Abandon);
    "in doubt": |_, state| any(state, |change| change.doubtful);
    "released": |_, state| any(state, |change| change.skipped);
    "in flight and not selected": |world, state| {
        cluster(world, state, |at, change| change.is_some() && !state.clusters[at].entry.selected)
    };
    "in flight and absent": |world, state| {
        cluster(world, state, |at, change| change.is_some() && state.clusters[at].entry.fit == Fit::Away)
    };
    "in flight and held": |world, state| {
        cluster(world, state, |at, change| change.is_some() && state.clusters[at].entry.fit == Fit::Held)
    };
    "in flight and unavailable": |world, state| {
        cluster(world, state, |at, change| change.is_some() && state.clusters[at].entry.fit == Fit::Unavailable)
    };
    "in flight and closed": |world, state| {
        cluster(world, state, |at, change| change.is_some() && state.clusters[at].entry.fit == Fit::Closed)
    };
    "a change that waits for its window": |_, state| any(state, |change| change.unbegun);
    "more counted than the limit": |world, state| state.eye.counted.len() > world.scope.limit;
    "as many counted as the limit": |world, state| state.eye.counted.len() == world.scope.limit;
    "a mark that condemns nothing": |_, state| {
        memory(state, |memory| !memory.marks.is_empty() && memory.run.is_some_and(|run| run.state == RunState::Open))
    };
    "a stage is passed": |_, state| memory(state, |memory| !memory.course.passed.is_empty());
    "a soak": |_, state| memory(state, |memory| memory.course.clear_since.is_some());
    "a second batch": |_, state| memory(state, |memory| memory.course.batch.is_some_and(|batch| batch.size > 1));
    "the memory is lost": |_, state| state.module.memory.is_none();
    "a stale view": |_, state| {
        state.leaders.iter().any(|leader| {
            leader.sheets.iter().zip(&state.clusters).any(|(observed, cluster)| *observed != cluster.sheet)
        })
    };
    "two stale views": |_, state| {
        state.leaders.len() > 1 && state.leaders.iter().all(|leader| {
            leader.sheets.iter().zip(&state.clusters).any(|(observed, cluster)| *observed != cluster.sheet)
        })
    };
    "a stale mirror": |_, state| {
        state.clusters.iter().any(|cluster| {
            cluster.mirror.is_some_and(|mirror| cluster.sheet.assignment != Some(mirror))
        })
    };
    "a tombstone": |_, state| {
        state.clusters.iter().any(|cluster| cluster.sheet.assignment.is_some_and(|row| !carries(row.content)))
    };
    "reported without an assignment": |_, state| {
        state.clusters.iter().any(|cluster| cluster.sheet.assignment.is_none() && cluster.sheet.report.is_some())
    };
    "a greater token is reported": |world, state| {
        cluster(world, state, |at, change| {
            let report = state.clusters[at].sheet.report.as_ref();
            change.zip(report).is_some_and(|(change, report)| report.token > change.token)
        })
    };
    "another incarnation": |_, state| state.clusters.iter().any(|cluster| cluster.entry.life > 0 && cluster.entry.present);
    "paused during a change": |_, state| state.module.paused && !state.eye.counted.is_empty();
    "a target that returned": |_, state| {
        memory(state, |memory| {
            memory.in_flight.values().any(|change| {
                change.revision.is_some() && change.revision == memory.last_good && change.kind == Kind::Assign
            })
        })
    };
}
